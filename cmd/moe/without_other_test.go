//go:build !linux

package main

func doWithout() {}
