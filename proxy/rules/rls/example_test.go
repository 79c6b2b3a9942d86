package rls_test

import (
	"fmt"

	"weir/internal/data/strict"
	"weir/proxy/rules/rls"
)

func Example() {
	var n strict.Node
	var r rls.Request
	for _, body := range []string{`{"domain":"shop","descriptors":[{"entries":[{"key":"plan","value":"free"}]}]}`,
		`{"domian":"shop"}`} {
		if err := n.Parse([]byte(body)); err != nil {
			fmt.Println(err)
		} else if err := r.Read(&n); err != nil {
			fmt.Println(err)
		} else {
			fmt.Printf("%s %s\n", r.Domain, r.Descriptors[0].Entries)
		}
	}
	fmt.Println(string(rls.AppendResponse(nil, &rls.Response{OverallCode: rls.OK})))
	// Output:
	// shop [{plan free}]
	// domian: is unknown; the fields are domain, descriptors, hitsAddend
	// {"overallCode":"OK"}
}
