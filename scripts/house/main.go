// Command house measures the inside of the packages of this module: what a reader has
// to hold in mind at once. tidy_test.go has the limits. It is run from
// the root of the module and leaves out tests and the testbed:
//
//	go run ./scripts/house [FOLDER]
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
)

// shown is how many of the largest are printed of each sort.
const shown = 5

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	pkgs, err := load(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	var types []*typeInfo
	total := 0
	for _, p := range pkgs {
		types = append(types, p.types()...)
		total += p.lines
	}
	if len(pkgs) == 0 {
		fmt.Fprintf(os.Stderr, "house: no Go package in %s\n", root)
		os.Exit(1)
	}
	printPackages(pkgs, total)
	printTypes(types)
	printPronouns(pkgs)
}

func printPackages(pkgs []*pkg, total int) {
	slices.SortFunc(pkgs, func(a, b *pkg) int { return cmp.Compare(b.lines, a.lines) })
	fmt.Printf("%d lines in %d packages, mean %d\n\n", total, len(pkgs), total/len(pkgs))
	fmt.Printf("%-28s %8s %8s %8s\n", "package", "lines", "files", "knot")
	for _, p := range pkgs[:min(shown, len(pkgs))] {
		fmt.Printf("%-28s %8d %8d %8d\n", p.name(), p.lines, len(p.files), p.knot())
	}
}

func printTypes(types []*typeInfo) {
	slices.SortFunc(types, func(a, b *typeInfo) int { return cmp.Compare(b.methods, a.methods) })
	fmt.Printf("\n%-28s %8s %8s %8s %8s %8s\n", "receiver", "methods", "lines", "files", "fields", "structs")
	for _, t := range types[:min(shown, len(types))] {
		fields, structs := t.reach()
		fmt.Printf("%-28s %8d %8d %8d %8d %8d\n", t.name, t.methods, t.lines, len(t.files), fields, structs)
	}
	var bags []string
	for _, t := range types {
		if t.isBag() {
			bags = append(bags, t.name)
		}
	}
	slices.Sort(bags)
	fmt.Printf("\nstructs embedded once and without a method: %d\n", len(bags))
	for _, b := range bags {
		fmt.Println("   ", b)
	}
}

func printPronouns(pkgs []*pkg) {
	var all words
	fmt.Printf("\n%-28s %8s %8s\n", "comments", "words", "vague")
	slices.SortFunc(pkgs, func(a, b *pkg) int { return cmp.Compare(b.words.share(), a.words.share()) })
	for _, p := range pkgs {
		all.all += p.words.all
		all.vague += p.words.vague
	}
	for _, p := range pkgs[:min(shown, len(pkgs))] {
		fmt.Printf("%-28s %8d %7.1f%%\n", p.name(), p.words.all, p.words.share())
	}
	fmt.Printf("%-28s %8d %7.1f%%\n", "all", all.all, all.share())
}
