package main

import "strings"

// object is a JSON object; its keys are written in alphabetical order.
type object = map[string]any

// The form of dashboards that is written, and read by Grafana 11 and later.
const schemaVersion = 39

// source is where panels get their data: what the reader has chosen.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// model returns the board in Grafana's words.
func (b board) model() object {
	return object{
		"uid": "weir-" + b.name, "title": b.title, "description": b.description, "tags": []string{"weir"},
		"schemaVersion": schemaVersion, "version": 1, "editable": true, "timezone": "browser",
		"graphTooltip": 1, // the cross hair is shared by all panels
		"refresh":      "5s",
		"time":         object{"from": "now-15m", "to": "now"},
		"templating":   object{"list": b.variables()},
		"annotations":  object{"list": annotations()},
		"links": []object{{
			"type": "dashboards", "title": "Weir", "tags": []string{"weir"},
			"asDropdown": false, "includeVars": false, "keepTime": true, "targetBlank": false,
		}},
		"panels": b.panels(),
	}
}

// variables are what the reader chooses.
func (b board) variables() []object {
	choice := func(name, label, query string) object {
		return object{
			"type": "query", "name": name, "label": label, "datasource": source,
			"query":      object{"query": query, "refId": "Variable"},
			"definition": query, "refresh": 2, "sort": 1, // with every change of the time range; by name
			"multi": true, "includeAll": true, "allValue": ".*",
			"current": object{"text": "All", "value": "$__all"},
		}
	}
	return []object{
		{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "current": object{}},
		choice("job", "Job", "label_values("+b.probe+", job)"),
		choice("instance", "Instance", "label_values("+b.probe+`{job=~"$job"}, instance)`),
	}
}

// annotations are marks over all panels.
func annotations() []object {
	mark := func(name, color, expr, title string) object {
		return object{
			"name": name, "datasource": source, "enable": true, "hide": false, "iconColor": color,
			"expr": expr, "titleFormat": title, "step": "5s",
		}
	}
	return []object{
		mark("Alerts", "red", `ALERTS{alertname=~"Weir.*", alertstate="firing"}`, "{{alertname}}"),
		mark("Limit changes", "blue", `changes(ratelimiter_current_limit[15s]) > 0`, "limit of {{instance}}"),
	}
}

// panels lays the rows out.
func (b board) panels() (list []object) {
	const columns = 24
	id, y := 0, 0
	add := func(o object, x, w, h int) {
		id++
		o["id"], o["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": h}
		list = append(list, o)
	}
	for _, r := range b.rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, columns, 1)
		y++
		x, high := 0, 0
		for _, p := range r.panels {
			w, h := p.extent()
			if x+w > columns {
				x, y, high = 0, y+high, 0
			}
			add(p.model(), x, w, h)
			x, high = x+w, max(high, h)
		}
		y += high
	}
	return list
}

// extent is the panel's width and height on the grid.
func (p panel) extent() (w, h int) {
	w, h = 8, 8
	if p.kind != lines {
		w, h = 4, 4
	}
	if p.width > 0 {
		w = p.width
	}
	return w, h
}

// model returns the panel in Grafana's words.
func (p panel) model() object {
	form, _, _ := strings.Cut(string(p.kind), "/")
	return object{
		"type": form, "title": p.title, "description": p.description, "datasource": source,
		"fieldConfig": object{"defaults": p.field(), "overrides": []object{}},
		"options":     p.options(),
		"targets":     p.targets(),
	}
}

// field says how values are written and coloured.
func (p panel) field() object {
	steps := []object{{"color": "green", "value": nil}}
	for _, s := range p.steps {
		steps = append(steps, object{"color": s.color, "value": s.from})
	}
	f := object{
		"unit": p.unit, "min": 0, "noValue": "–", "mappings": []object{},
		"thresholds": object{"mode": "absolute", "steps": steps},
		"color":      object{"mode": "thresholds"},
	}
	if p.top > 0 {
		f["max"] = p.top
	}
	if p.kind != lines {
		return f
	}
	stacking, fill, limits := "none", 8, "off"
	if p.stacked {
		stacking, fill = "normal", 30
	}
	if len(p.steps) > 0 {
		limits = "dashed"
	}
	f["color"] = object{"mode": "palette-classic"}
	f["custom"] = object{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "showPoints": "never", "spanNulls": 15000,
		"stacking": object{"mode": stacking, "group": "A"}, "thresholdsStyle": object{"mode": limits},
	}
	return f
}

// options are those of the panel's kind.
func (p panel) options() object {
	last := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch p.kind {
	case now:
		return object{"reduceOptions": last, "colorMode": "value", "graphMode": "area", "textMode": "auto", "orientation": "auto"}
	case words:
		return object{"reduceOptions": last, "colorMode": "value", "graphMode": "none", "textMode": "name", "orientation": "auto"}
	case bars:
		return object{"reduceOptions": last, "displayMode": "basic", "orientation": "horizontal", "showUnfilled": true}
	}
	return object{
		"legend":  object{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "mean", "max"}},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
}

// targets are the panel's queries. Panels that show the present ask for a range
// too, for the course behind the figure; names and bars only for the last.
func (p panel) targets() (list []object) {
	instant := p.kind == words || p.kind == bars
	for i, q := range p.queries {
		list = append(list, object{
			"refId": string(rune('A' + i)), "datasource": source, "expr": expand(q.expr), "legendFormat": q.legend,
			"range": !instant, "instant": instant, "editorMode": "code",
		})
	}
	return list
}
