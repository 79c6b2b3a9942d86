package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A dashboard holds the fields of a dashboard's JSON that the tests check.
type dashboard struct {
	file       string
	UID        string
	Title      string
	Panels     []panel
	Tags       []string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct {
			Datasource source
			Expr       string
		}
	}
}

// A source is where a panel, a query or an annotation gets its data.
type source struct{ UID string }

// chosen is the source that the reader of a board has chosen.
var chosen = source{"${datasource}"}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               source
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Datasource         source
		Expr, LegendFormat string
	}
}

func dashboards(t *testing.T) (list []dashboard) {
	t.Helper()
	for _, name := range glob(t, "grafana/dashboards/*.json") {
		d := dashboard{file: filepath.Base(name)}
		if err := json.Unmarshal([]byte(read(t, name)), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, d)
	}
	return list
}

// Each board has unique ids, a layout without overlaps, the common variables and tag, and complete
// panels that read from the data source that its reader has chosen.
func TestDashboards(t *testing.T) {
	uids := make(map[string]bool)
	for _, d := range dashboards(t) {
		if d.UID == "" || uids[d.UID] {
			t.Errorf("%s: uid %q is empty or there twice", d.file, d.UID)
		}
		uids[d.UID] = true
		if v := d.Templating.List; len(v) != 3 || v[0].Type != "datasource" || v[1].Name != "job" || v[2].Name != "instance" {
			t.Errorf("%s: variables %v, want the data source, job and instance", d.file, v)
		}
		if !slices.Contains(d.Tags, "weir") {
			t.Errorf("%s: has no tag weir, by which the boards link to each other", d.file)
		}
		for _, a := range d.Annotations.List {
			if a.Datasource != chosen {
				t.Errorf("%s: annotation %s: has data source %q, want the chosen one", d.file, a.Expr, a.Datasource.UID)
			}
		}
		ids, taken := make(map[int]bool), make(map[[2]int]bool)
		for _, p := range d.Panels {
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s, %s: id %d is none or there twice", d.file, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if taken[[2]int{x, y}] || x >= 24 {
						t.Errorf("%s, %s: lies on another panel or beyond the edge", d.file, p.Title)
					}
					taken[[2]int{x, y}] = true
				}
			}
			if p.Type != "row" {
				checkPanel(t, d.file, p)
			}
		}
	}
	for _, program := range []string{"proxy", "loadgen", "target", "advisor", "experiment", "postgres"} {
		if !uids["weir-"+program] {
			t.Errorf("there is no dashboard weir-%s", program)
		}
	}
}

func checkPanel(t *testing.T, file string, p panel) {
	t.Helper()
	if p.Title == "" || len(strings.Fields(p.Description)) < 2 || p.FieldConfig.Defaults.Unit == "" ||
		len(p.Targets) == 0 {
		t.Errorf("%s, panel %d %q: needs a title, a description, a unit and a query", file, p.ID, p.Title)
	}
	if p.Datasource != chosen {
		t.Errorf("%s, %s: has data source %q, want the chosen one", file, p.Title, p.Datasource.UID)
	}
	for _, target := range p.Targets {
		if target.LegendFormat == "" || target.Datasource != chosen {
			t.Errorf("%s, %s: %s needs a legend and the chosen data source", file, p.Title, target.Expr)
		}
	}
}

// Every panel shows data of a real run, rules evaluate, and no expression names a metric that does
// not exist.
func TestEveryPanelShowsData(t *testing.T) {
	if !there(t, "prometheus", "whether the dashboards show data") ||
		!there(t, "redis-server", "whether the dashboards show data") ||
		!there(t, "pg_ctlcluster", "whether the dashboards show data") {
		return
	}
	p := startPlatform(t)
	boards := dashboards(t)
	var exprs []string
	for _, d := range boards {
		exprs = append(exprs, d.queries(t, p)...)
	}
	slices.Sort(exprs)
	exprs = slices.Compact(exprs)
	if len(exprs) < 100 {
		t.Fatalf("only %d expressions are found", len(exprs))
	}
	total := len(exprs)
	await(t, "expressions without data", func() error {
		exprs = slices.DeleteFunc(exprs, func(expr string) bool {
			samples, err := query(p.prometheus, expr)
			if err != nil {
				t.Fatalf("%s: %v", expr, err)
			}
			return len(samples) > 0
		})
		if len(exprs) > 0 {
			return fmt.Errorf("%d of %d:\n%s", len(exprs), total, strings.Join(exprs, "\n"))
		}
		return nil
	})
	t.Logf("%d expressions have data", total)
	p.checkNames(t, boards)
	p.checkRules(t)
}

// queries returns the expressions of a board with its variables replaced as in Grafana: all jobs
// and instances with the metric that the board reads them from.
func (d *dashboard) queries(t *testing.T, p *platform) (exprs []string) {
	t.Helper()
	var job, instance string
	metric, _, _ := strings.Cut(strings.TrimPrefix(d.Templating.List[1].Definition, "label_values("), ",")
	await(t, "wait for "+metric, func() error {
		var series []map[string]string
		err := ask(p.prometheus, "series",
			url.Values{"match[]": {fmt.Sprintf("%s{instance=%q}", metric, p.at[d.speaker()].Addr)}}, &series)
		if err == nil && len(series) == 0 {
			err = fmt.Errorf("no program has it")
		}
		if err == nil {
			job, instance = series[0]["job"], regexp.QuoteMeta(series[0]["instance"])
		}
		return err
	})
	if want := d.program(); job != want {
		t.Errorf("%s: %s is read from job %s, want %s", d.file, metric, job, want)
	}
	fill := strings.NewReplacer("$job", job, "$instance", strings.ReplaceAll(instance, `\`, `\\`), "$__rate_interval",
		"10s")
	for _, one := range d.Panels {
		for _, target := range one.Targets {
			expr := fill.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s, %s: %s has a variable that is not known", d.file, one.Title, expr)
			}
			exprs = append(exprs, expr)
		}
	}
	return exprs
}

// speaker returns the program of the platform whose metrics the board shows.
func (d *dashboard) speaker() string {
	if name := strings.TrimSuffix(d.file, ".json"); name != "experiment" {
		return name
	}
	return "proxy"
}

// program returns the job of the board.
func (d *dashboard) program() string {
	if d.speaker() == onPostgres {
		return "proxy"
	}
	return d.speaker()
}

// checkNames checks that all metrics in boards and rules exist.
func (p *platform) checkNames(t *testing.T, boards []dashboard) {
	t.Helper()
	known := names(t, p.prometheus)
	known["ALERTS"] = true                                           // is there when one is pending
	known["advisor_shortage_seconds"] = true                         // is there when a shortage is foreseen
	known["ratelimiter_certificate_expiry_timestamp_seconds"] = true // is there with TLS_CERT
	known["ratelimiter_xds_connected"] = true                        // is there with CONFIG_TYPE=GRPC_XDS_SOTW
	check := func(where, expr string) {
		for _, name := range metrics(expr) {
			if !known[name] && !strings.HasPrefix(name, "weir:") {
				t.Errorf("%s: no program has the metric %s", where, name)
			}
		}
	}
	for _, d := range boards {
		for _, one := range d.Panels {
			for _, target := range one.Targets {
				check(d.file+", "+one.Title, target.Expr)
			}
		}
		for _, a := range d.Annotations.List {
			check(d.file+", annotations", a.Expr)
		}
	}
	recorded := make(map[string]bool)
	for _, r := range rules(t) {
		check(r.file+", "+r.Alert+r.Record, r.Expr)
		recorded[r.Record] = true
	}
	delete(recorded, "") // alerts
	await(t, "rules that record nothing", func() error {
		known := names(t, p.prometheus)
		maps.DeleteFunc(recorded, func(record string, _ bool) bool { return known[record] })
		if len(recorded) > 0 {
			return fmt.Errorf("%v", slices.Sorted(maps.Keys(recorded)))
		}
		return nil
	})
}

// checkRules checks that all rules evaluate, and that no alert fires on a healthy platform.
func (p *platform) checkRules(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	if err := ask(p.prometheus, "rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" || r.State == "firing" {
				t.Errorf("rule %s: health %s %s, state %s", r.Name, r.Health, r.LastError, r.State)
			}
		}
	}
	if n < 15 {
		t.Errorf("Prometheus has %d rules", n)
	}
}

// Parts of PromQL that are not names of metrics: strings, labels, ranges and numbers. After their
// removal, names, functions and keywords are left.
var (
	texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	aside = regexp.MustCompile(
		`\{[^}]*\}|\[[^\]]*\]|\b\d[\w.]*|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	reserved   = []string{"and", "or", "unless", "bool", "offset", "inf", "nan"}
)

// metrics returns the names of metrics in an expression.
func metrics(expr string) (names []string) {
	expr = aside.ReplaceAllString(texts.ReplaceAllString(expr, `""`), " ")
	for _, word := range identifier.FindAllString(expr, -1) {
		if word[len(word)-1] != '(' {
			if name := regexp.MustCompile(`\s+$`).ReplaceAllString(word, ""); !slices.Contains(reserved, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func TestMetrics(t *testing.T) {
	f := func(expr string, want ...string) {
		t.Helper()
		if have := metrics(expr); !slices.Equal(have, want) {
			t.Errorf("%s: have %q, want %q", expr, have, want)
		}
	}
	f(`up`, "up")
	f(`sum by (job, le) (rate(a_bucket{x="y", z=~"a{b}\"c"}[5m])) / on (job) group_left (x) b:c1 > 0.5`, "a_bucket",
		"b:c1")
	f(`a or vector(0) and time() - max(d > 0) unless e offset 5m`, "a", "d", "e")
	f(`histogram_quantile(0.99, sum(h_bucket))`, "h_bucket")
	f(`sum (x) without (y) + 1e3`, "x")
}
