package descriptor_test

import (
	"fmt"

	"weir/proxy/rules/descriptor"
	"weir/proxy/rules/rls"
)

func Example() {
	domains, err := descriptor.Read([]descriptor.File{{Name: "shop.yaml", Text: []byte(`
domain: shop
descriptors:
  - key: plan
    rate_limit: {unit: minute, requests_per_unit: 9}
  - key: plan
    value: g*
    rate_limit: {unit: second, requests_per_unit: 50}
`)}}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	var found descriptor.LookupResult
	for _, plan := range []string{"free", "gold"} {
		entries := []rls.Entry{{Key: []byte("plan"), Value: []byte(plan)}}
		domains.Domain([]byte("shop")).Walk(entries, &found)
		fmt.Printf("%s: %d per %v, counted as %s\n", plan, found.Limit.Shown.RequestsPerUnit, found.Limit.Shown.Unit,
			found.AppendKey(nil, entries))
	}
	// Output:
	// free: 9 per MINUTE, counted as 4:plan4:free
	// gold: 50 per SECOND, counted as 4:plan4:gold
}

func ExampleDomains_AppendText() {
	domains, _ := descriptor.Read([]descriptor.File{{Name: "shop.yaml", Text: []byte(`
domain: shop
descriptors:
  - key: plan
    value: gold
    rate_limit: {unit: second, requests_per_unit: 50}
    descriptors: [{key: user, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}]
  - key: plan
    rate_limit: {unlimited: true}
  - key: all*
    rate_limit: {unit: day, requests_per_unit: 7}
`)}}, false)
	fmt.Printf("%s", domains.AppendText(nil))
	// Output:
	// shop.all*: unit=DAY requests_per_unit=7, shadow_mode: false, quota_mode: false
	// shop.plan: unlimited
	// shop.plan_gold: unit=SECOND requests_per_unit=50, shadow_mode: false, quota_mode: false
	// shop.plan_gold.user: unit=HOUR requests_per_unit=9, shadow_mode: true, quota_mode: false
}
