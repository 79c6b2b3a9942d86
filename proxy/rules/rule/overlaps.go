package rule

import (
	"strings"

	"weir/proxy/rules/pattern"
)

// overlaps refuses a file in which more rules could apply to one request than can be
// decided together.
func (j *judge) overlaps(s *Set) {
	most := MatchedRulesMax - (len(s.rules) - s.own)
	found := pattern.FindOverlap(demands(s.rules[:s.own]), most, pattern.OverlapStepsMax)
	if found.Rules == nil {
		return
	}
	ids := make([]string, len(found.Rules))
	for i, r := range found.Rules {
		ids[i] = s.rules[r].ID
	}
	doubt := ""
	if !found.Sure {
		doubt = " (or too many rules overlap to find out)"
	}
	last := &s.rules[found.Rules[len(found.Rules)-1]]
	j.Fault(last.path, "the rules %s could all apply to one request; at most %d may%s",
		strings.Join(ids, ", "), most, doubt)
}

func demands(rules []compiled) []pattern.Rule {
	all := make([]pattern.Rule, len(rules))
	for i := range rules {
		c := &rules[i]
		all[i] = pattern.Rule{Methods: c.Match.Methods, Path: c.pathOf, Host: c.hostOf}
		for _, d := range c.conditions {
			all[i].Conditions = append(all[i].Conditions, d.PartCondition)
		}
	}
	return all
}
