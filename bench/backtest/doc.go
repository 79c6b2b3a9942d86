// Package backtest replays traces with only their past visible, and scores forecasts.
//
// A [Method] is told one slot after another and asked for every horizon after each.
// What it said is kept as a [Run], so that any span of origins can be scored
// afterwards by the same [Score]. [Run.Levels] holds a run against simple methods, the
// best of which a forecaster has to meet, [Run.Compare] against what Prophet and the
// statistical libraries said at the same origins.
//
// Everything here is a value: the traces come as bytes, and what comes out are
// numbers and tables for others to print.
package backtest
