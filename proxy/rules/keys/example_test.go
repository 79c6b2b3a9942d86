package keys_test

import (
	"fmt"

	"weir/internal/net/http1"
	"weir/proxy/rules/keys"
)

func ExamplePart() {
	part, _ := keys.ParsePart("cookie:sid")
	request := keys.Request(http1.Head{Fields: []http1.Field{{ID: http1.FieldCookie, Value: []byte("a=1; sid=secret")}}})
	var interpretations keys.Interpretations
	request.Read(&part, &interpretations)
	for _, r := range interpretations.All() {
		fmt.Printf("%s %t %t\n", r.Text, r.Present, part.Secret())
		fmt.Printf("%s\n", keys.AppendRedacted(nil, keys.AppendSecret(nil, r.Text)))
	}
	_, err := keys.ParsePart("cookies:sid")
	fmt.Println(err)
	// Output:
	// secret true true
	// 19:sha256:2bb80d537b1d
	// must be one of global, ip, ip/24, ip/64, header:N, cookie:N, query:N, path, method, host, secret:header:N, is "cookies:sid"
}
