package closedloop

// A happening is when something happens to a visit.
type happening struct {
	at    float64
	visit *visit
	life  uint32 // of the visit; another one: it is over, and this happens to nobody
	late  bool   // it has waited for a place long enough; otherwise its answer is there
}

// happenings are a heap with the earliest on top.
type happenings []happening

func (h *happenings) push(a happening) {
	*h = append(*h, a)
	l := *h
	i := len(l) - 1
	for i > 0 && l[(i-1)/2].at > a.at {
		l[i] = l[(i-1)/2]
		i = (i - 1) / 2
	}
	l[i] = a
}

func (h *happenings) pop() happening {
	l := *h
	top, a := l[0], l[len(l)-1]
	l = l[:len(l)-1]
	*h = l
	i := 0
	for {
		child := 2*i + 1
		if child >= len(l) {
			break
		}
		if child+1 < len(l) && l[child+1].at < l[child].at {
			child++
		}
		if l[child].at >= a.at {
			break
		}
		l[i] = l[child]
		i = child
	}
	if len(l) > 0 {
		l[i] = a
	}
	return top
}
