// Package backtest replays traces and scores forecasts that were made from their past
// alone.
//
// A [Method] observes one slot after another, and forecasts every horizon after each. Its
// forecasts are kept as a [Run], so that any span of origins can be scored afterwards.
// [Run.ColdStart] scores the first forecasts by the length of their history, [Run.Levels]
// compares a run with simple methods, [Run.Compare] with the forecasts of Prophet and of
// statistical libraries at the same origins.
//
// Traces are parsed from bytes, and results are numbers.
package backtest
