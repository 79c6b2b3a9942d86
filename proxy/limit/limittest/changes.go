package limittest

import "weir/proxy/limit"

// families returns limits that replace each other.
func families() [][]*limit.Limit {
	return [][]*limit.Limit{
		{
			Must(limit.Config{Algorithm: limit.Fixed, Limit: 10, Window: 10}),
			Must(limit.Config{Algorithm: limit.Fixed, Limit: 4, Window: 10}),
			Must(limit.Config{Algorithm: limit.Fixed, Limit: 4, Window: 3}),
		}, {
			Must(limit.Config{Algorithm: limit.Sliding, Limit: 10, Window: 10}),
			Must(limit.Config{Algorithm: limit.Sliding, Limit: 3, Window: 10}),
			Must(limit.Config{Algorithm: limit.Sliding, Limit: 3, Window: 70}),
		}, {
			Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}),
			Must(limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 1}),
			Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 0.7}),
			Must(limit.Config{Algorithm: limit.Token, Capacity: 6, FillRate: 33.333333}),
		}, {
			Must(limit.Config{Algorithm: limit.Token, Capacity: 200, FillRate: 100}),
			Must(limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 0.7}),
			Must(limit.Config{Algorithm: limit.Token, Capacity: 8, FillRate: 0.1}),
		}, {
			Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 10}),
			Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 3, Window: 10}),
			Must(limit.Config{Algorithm: limit.SlidingLog, Limit: 10, Window: 11}),
		}, {
			Must(limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 10, Burst: 5}),
			Must(limit.Config{Algorithm: limit.GCRA, Limit: 10, Window: 10, Burst: 2}),
			Must(limit.Config{Algorithm: limit.GCRA, Limit: 7, Window: 10, Burst: 9}),
			Must(limit.Config{Algorithm: limit.GCRA, Limit: 7, Window: 11, Burst: 9}),
		}, {
			Must(limit.Config{Algorithm: limit.Leaky, Capacity: 10, FillRate: 1}),
			Must(limit.Config{Algorithm: limit.Leaky, Capacity: 3, FillRate: 1}),
			Must(limit.Config{Algorithm: limit.Leaky, Capacity: 10, FillRate: 0.7}),
			Must(limit.Config{Algorithm: limit.Leaky, Capacity: 6, FillRate: 33.333333}),
		}, {
			Must(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}),
			Soft(limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}, 0.4, 8),
			Soft(limit.Config{Algorithm: limit.Token, Capacity: 12, FillRate: 3}, 0.2, 2),
		}, {
			Must(limit.Config{Algorithm: limit.Fixed, Limit: 4, Window: 3}),
			Soft(limit.Config{Algorithm: limit.Fixed, Limit: 4, Window: 3}, 0.5, 5),
			Soft(limit.Config{Algorithm: limit.Fixed, Limit: 6, Window: 3}, 0.5, 1),
		},
		Limits(),
	}
}

// Histories of changing limits that few seeds find.

// forgivenWhileHard: a bucket that has exceeded a soft limit is asked under a hard one when it no
// longer owes more than its capacity. So its state changes, and has not exceeded anything since.
func forgivenWhileHard() []Step {
	hard := limit.Config{Algorithm: limit.Token, Capacity: 10, FillRate: 1}
	soft, faster := Soft(hard, 0.4, 8), Soft(limit.Config{Algorithm: limit.Token, Capacity: 12, FillRate: 3}, 0.2, 2)
	return []Step{after(0, soft, 12), after(600, faster, 0), after(600, soft, 0), after(9000, Must(hard), 0),
		after(9001, soft, 10)}
}

// setBackWithoutDebt: the rate changes while nothing is owed, so nothing is forgiven later, and a look
// does not change the state. Then the clock steps back.
func setBackWithoutDebt() []Step {
	fast, slow := Must(limit.Config{Algorithm: limit.Token, Capacity: 6, FillRate: 30}),
		Must(limit.Config{Algorithm: limit.Token, Capacity: 3, FillRate: 1})
	return []Step{after(0, fast, 1), after(3000, slow, 0), after(3200, slow, 0), after(3100, slow, 2)}
}

// after returns a step at so many milliseconds after [Epoch].
func after(ms int64, l *limit.Limit, cost int64) Step {
	return Step{Now: Epoch + ms*1000, Limit: l, Charge: one(cost)}
}
