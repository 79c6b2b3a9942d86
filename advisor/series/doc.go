// Package series keeps the history of a rate in bounded memory.
//
// A [History] is fed with mean rates over spans of time and keeps them four times,
// each coarser and longer than the one before: as they came for six hours, by the
// minute for two days, by five minutes for five weeks, by the hour for thirteen
// months. A span that lies across a border of buckets is shared out by time, so a
// bucket holds a time-weighted mean and how much of it is covered. What was never
// measured is a gap, not a zero.
//
// Buckets are counted from the Unix epoch, and belong to the half-open span
// (start, start+width]: a rate has the time at which its span ended.
package series
