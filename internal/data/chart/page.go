package chart

import (
	"bytes"
	"fmt"
	"html/template"

	"weir/internal/data/number"
)

// head is the beginning of every page: metadata, the colours of charts, and the common style
// sheet.
const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<style>
:root{--page:#f4f6f9;--card:#fff;--ink:#1c2733;--muted:#5b6776;--line:#e1e6ec;
--green:#1f9254;--amber:#b86e00;--red:#cf3341;--blue:#2563c9;--violet:#7c4dbd;--grey:#7d8896}
@media (prefers-color-scheme:dark){:root{--page:#11161c;--card:#1a2129;--ink:#dfe6ee;--muted:#9aa7b5;--line:#2c3744;
--green:#56cf8b;--amber:#f0b04a;--red:#ff7d85;--blue:#6ea8fe;--violet:#b996f7;--grey:#8f9aa8}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,"Liberation Sans",Arial,sans-serif}
main{max-width:1280px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:26px;margin:0;display:flex;gap:14px;align-items:center;flex-wrap:wrap}
h2{font-size:15px;margin:0 0 10px}
.lead{color:var(--muted);margin:4px 0 0}
.badge{font-size:14px;font-weight:700;letter-spacing:.04em;padding:3px 12px;border-radius:999px;color:#fff;background:#5b6776}
.reasons{margin:14px 0;padding:12px 18px 12px 34px;background:var(--card);border-left:4px solid var(--amber);border-radius:6px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:18px 0 16px}
.figure,.card{background:var(--card);border:1px solid var(--line);border-radius:10px;min-width:0}
.figure{padding:10px 14px}
.figure dt{color:var(--muted);font-size:13px}
.figure dd{margin:0;font-size:22px;font-weight:650;white-space:nowrap;font-variant-numeric:tabular-nums}
.figure dd+dd{font-size:12px;font-weight:400;color:var(--muted);white-space:normal;line-height:1.3}
.card{padding:14px 18px;overflow-x:auto}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px}
svg.chart{display:block;width:100%;height:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}
th,td{padding:4px 0 4px 14px;text-align:right;border-top:1px solid var(--line);white-space:nowrap}
th{font-weight:600;color:var(--muted);font-size:13px}
th:first-child,td:first-child{text-align:left;padding-left:0}
.green{color:var(--green)}.amber{color:var(--amber)}.red{color:var(--red)}.blue{color:var(--blue)}.violet{color:var(--violet)}
.green.badge{background:#1f9254;color:#fff}.amber.badge{background:#b86e00;color:#fff}.red.badge{background:#cf3341;color:#fff}
[hidden]{display:none!important}
@media (max-width:860px){.grid{grid-template-columns:minmax(0,1fr)}}
</style>
`

// A Stat is a highlighted number of a page. As an alias it can be written without field names.
type Stat = struct{ Name, Value, Note, Tone string }

// figures shows a list of figures.
const figures = `{{define "figures"}}<dl class="figures">
{{- range .}}
<div class="figure"><dt>{{.Name}}</dt><dd{{if .Tone}} class="{{.Tone}}"{{end}}>{{.Value}}</dd><dd>{{.Note}}</dd></div>
{{- end}}
</dl>{{end}}`

// RenderPage returns an HTML page in the common style, of a template that is executed with data. body begins
// with the title and additions to the style sheet, and ends with </html>. It may use the template
// "figures", the formats of package number, svg to draw a Chart, and funcs.
func RenderPage(body string, funcs template.FuncMap, data any) ([]byte, error) {
	kit := template.FuncMap{"svg": svg,
		"thousands": number.Thousands, "rate": number.Rate, "percent": number.Percent, "span": number.Duration}
	t, err := template.New("page").Funcs(kit).Funcs(funcs).Parse(head + body + figures)
	if err != nil {
		return nil, fmt.Errorf("parse page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	return b.Bytes(), nil
}

func svg(c Chart) (template.HTML, error) {
	drawn, err := c.SVG()
	return template.HTML(drawn), err
}

// asking is the common script of pages that use guarded endpoints. They have a form "ask" with
// an input "token", and an element "why" for the reason of a refusal.
const asking = `<script>
"use strict";
const at = id => document.getElementById(id);
const count = n => Math.round(n).toLocaleString("en-US");

// el returns an element that contains a text, a node, or a list of them.
function el(tag, content, tone) {
	const e = document.createElement(tag);
	e.append(...[content].flat());
	if (tone) e.className = tone;
	return e;
}
const figure = (name, value, note, tone) => el("div", [el("dt", name), el("dd", value, tone), el("dd", note)], "figure");

// guarded sends a request that may need the token. A refusal shows the form; the token
// entered there is kept as long as this tab, and the request is sent again.
let again = () => {};
async function guarded(method, path, done, body) {
	const token = sessionStorage.getItem("token");
	const answer = await fetch(path, {method, body, cache: "no-store", headers: token ? {Authorization: "Bearer " + token} : {}});
	if (answer.status !== 403) {
		at("ask").hidden = true;
		return done(answer);
	}
	const refused = await answer.json();
	again = () => guarded(method, path, done, body);
	at("why").textContent = refused.error;
	at("ask").hidden = false;
	at("token").focus();
}
document.addEventListener("submit", e => {
	e.preventDefault();
	sessionStorage.setItem("token", at("token").value);
	at("token").value = "";
	again();
});
</script>
`

// PageWithTokenPrompt returns a page in the common style, of a body as of RenderPage that is no template. Its script
// calls guarded for endpoints that may need the token.
func PageWithTokenPrompt(body string) string { return head + asking + body }
