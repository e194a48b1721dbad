// Package examples holds the small tables of this directory, which the command has in itself.
package examples

import _ "embed"

// Table is a table in CSV, and what is to be known of it.
type Table struct {
	Name    string
	About   string // what a row is, and the target, the last column
	Source  string
	Licence string
	CSV     []byte
}

//go:embed tone.csv
var tone []byte

//go:embed dnase.csv
var dnase []byte

//go:embed iris.csv
var iris []byte

//go:embed patents.csv
var patents []byte

//go:embed trial.csv
var trial []byte

// Tables are all of them, by name.
func Tables() []Table {
	return []Table{
		{"dnase", "176 readings of an assay: optical density against concentration",
			"Davidian and Giltinan (1995), Nonlinear Models for Repeated Measurement Data",
			"published measurements, without a licence", dnase},
		{"iris", "150 flowers of three species: petal length against three other lengths",
			"Fisher (1936), Annals of Eugenics 7, Table I", "published measurements, without a licence", iris},
		{"patents", "70 firms of drugs and medicine in 1976: patents against the logarithm of research spending, and " +
			"its share of sales", "Wang, Cockburn and Puterman (1998), J. Business & Economic Statistics 16",
			"published figures, without a licence", patents},
		{"tone", "150 judgements of a tone: two lines, of those who heard the octave and of those who heard the " +
			"overtone", "Cohen (1980), PhD thesis, Stanford; De Veaux (1989)",
			"published measurements, without a licence", tone},
		{"trial", "400 made-up patients of three sites, with missing cells", "drawn for this project", "that of moe",
			trial},
	}
}
