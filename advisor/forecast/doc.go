// Package forecast predicts a rate over the next hour, as quantiles.
//
// No single method is good for all rates: where counts are noise around a daily profile a
// smooth calendar is best, where crowds come and go the last minute is. So a [Forecaster]
// combines many simple experts and learns, separately for every horizon, how to weigh
// them.
//
//	levels       the newest slot, smoothings
//	calendar     the same time yesterday and last week; profiles of day, week and hour;
//	             a few waves fitted by regression; announced events
//	experts      forecasts made of these, each with its formula in one table
//	regression   on levels and calendar together, separately for each horizon; an expert, too
//	mixer        combines the available forecasts: by recent losses, by losses over a long
//	             time, by constrained least squares, and by how well these three did
//	band         quantiles around it, adapted to their own coverage except while idle
//	shift        detects lasting changes of the level
//
// Every forecast is kept until the actual rate is known, and only then learned from. A
// missing slot is a gap: forecasts for it are dropped unscored. With little history the
// experts that need more make no forecast, so the same code works for minutes and months.
//
// z is log(rate + c) throughout, with c the rate of one event per slot or a
// twentieth of the mean, whichever is more.
package forecast
