//go:build !unix

package textfile

const nonBlocking = 0
