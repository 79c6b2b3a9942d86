package refusal_test

import (
	"fmt"

	"weir/proxy/rules/refusal"
)

func Example() {
	pages, err := refusal.New(map[string][]byte{"default.html": []byte("<p>{{rule}} allows {{limit}}. {{advice}}</p>")})
	if err != nil {
		panic(err)
	}
	page := pages.Pick("", refusal.ParseAccept([]byte("text/html,*/*;q=0.8")))
	values := refusal.Values{Status: 429, Rule: "per-partner", Limit: 10, RetryAfter: 3}
	fmt.Println(page.ContentType)
	fmt.Println(string(page.Template.Append(nil, &values)))
	// Output:
	// text/html; charset=utf-8
	// <p>per-partner allows 10. Please try again in 3 seconds.</p>
}
