package refusal

// builtIn is the page for browsers if the operator configures none.
const builtIn = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{{status}} {{title}}</title>
<style>
:root { color-scheme: light dark }
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto 0; padding: 0 1.2rem }
small { opacity: .7; overflow-wrap: anywhere }
</style>
</head>
<body>
<h1>{{title}}</h1>
<p>The request was refused: {{error}}. {{advice}}</p>
<p><small>{{status}} {{decision}}</small></p>
</body>
</html>
`
