// Command site makes a site of plain HTML of the project's pages: every .md file of the guide with what it links to,
// a menu, and a search box whose index is a script beside them. It needs no server: the files can be opened as they
// are. A link that leads nowhere is an error.
//
//	cd tools && go run ./site -o OUT ..
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	out := flag.String("o", "", "write the site to this `directory`, which must not exist or be empty")
	flag.Parse()
	if flag.NArg() != 1 || *out == "" {
		fmt.Fprintln(os.Stderr, "usage: site -o OUT ROOT")
		os.Exit(64)
	}
	s, err := Make(flag.Arg(0))
	if err == nil {
		err = s.Write(*out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d pages, %d other files\n", *out, len(s.Pages), len(s.Files)-len(s.Pages))
}
