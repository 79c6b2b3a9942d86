package testkit

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

func TestMain(m *testing.M) {
	Main(m, func() {
		fmt.Println("ready", os.Args[1:], os.Getenv("A"))
		fmt.Println("ready again")
		if len(os.Args) > 1 {
			select {}
		}
		os.Exit(3)
	})
}

func TestProgram(t *testing.T) {
	p := Start(t, Command(t, []string{"A", "one"}))
	if line := p.LoggedTimes("ready", 2); line != "ready again" {
		t.Errorf("the second line is %q", line)
	}
	if line := p.Logged("one"); line != "ready [] one" {
		t.Errorf("the first line is %q", line)
	}
	p.RequireExit(3)
	p = Start(t, Command(t, nil, "stay"))
	p.Logged("[stay]")
	p.Kill()
	p.RequireExit(-1)
	if out, _ := RequireExit(t, Command(t, nil), 3); out != "ready [] \nready again\n" {
		t.Errorf("it wrote %q", out)
	}
}

func TestLog(t *testing.T) {
	var l Log
	fmt.Fprint(&l, "one a\ntwo\nthree a\nfour a")
	if got := l.Lines("a"); !slices.Equal(got, []string{"one a", "three a"}) {
		t.Errorf("the lines are %q", got)
	}
	if n := l.Count(" a"); n != 3 {
		t.Errorf("a is there %d times", n)
	}
	if l.Reset(); l.String() != "" {
		t.Errorf("after Reset there is %q", &l)
	}
}
