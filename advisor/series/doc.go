// Package series keeps the history of a rate in bounded memory.
//
// A [History] takes mean rates over intervals and keeps them at four resolutions:
// unchanged for six hours, by the minute for two days, by five minutes for five weeks, by
// the hour for thirteen months. An interval that crosses a bucket boundary is divided by
// time, so a bucket holds a time-weighted mean and its coverage. Time without
// measurements is a gap, not a zero.
//
// Buckets are counted from the Unix epoch, and belong to the half-open span
// (start, start+width]: a rate has the time at which its span ended.
package series
