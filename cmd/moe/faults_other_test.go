//go:build !unix

package main

func faulty() { main() }
