package serve

import (
	"strings"
	"testing"
	"time"

	"weir/internal/program/service"
	"weir/internal/test/testkit"
	"weir/target/model"
)

// parse reads settings from the environment, "NAME=value" separated by spaces.
func parse(env string) (Config, error) {
	values := map[string]string{}
	for pair := range strings.FieldsSeq(env) {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	var c Config
	s := service.NewSettings("target")
	c.Register(s)
	_, err := s.Parse(nil, func(name string) string { return values[name] })
	return c, err
}

func TestSettings(t *testing.T) {
	c, err := parse("")
	if err != nil || c.Model != model.Default() || c.DrainTimeout != 30*time.Second || c.Loops < 1 {
		t.Errorf("the defaults are %+v, %v", c, err)
	}
	c, err = parse("TARGET_DELAY=10ms TARGET_DELAY_DIST=lognormal TARGET_WORKERS=4 TARGET_QUEUE=0 " +
		"TARGET_QUEUE_TIMEOUT=250ms TARGET_ERROR_RATE=0.1 EVENT_LOOPS=3 DRAIN_TIMEOUT=1s")
	want := Config{
		Model: model.Config{Delay: 10 * time.Millisecond, Dist: model.Lognormal, Workers: 4,
			QueueTimeout: 250 * time.Millisecond, ErrorRate: 0.1},
		Loops: 3, DrainTimeout: time.Second,
	}
	if err != nil || c != want {
		t.Errorf("the settings are %+v, %v, want %+v", c, err, want)
	}
}

func TestWrongSettings(t *testing.T) {
	for _, env := range []string{
		"TARGET_DELAY=-1ms", "TARGET_DELAY=2h", "TARGET_DELAY_DIST=uniform", "TARGET_WORKERS=-1", "TARGET_QUEUE=1000001",
		"TARGET_QUEUE_TIMEOUT=0", "TARGET_ERROR_RATE=1.1", "TARGET_ERROR_RATE=NaN", "EVENT_LOOPS=0", "DRAIN_TIMEOUT=-1s",
	} {
		name, value, _ := strings.Cut(env, "=")
		_, err := parse(env)
		if err == nil || !strings.Contains(err.Error(), name+": \""+value+`"`) ||
			!strings.Contains(err.Error(), "allowed: ") {
			t.Errorf("%s: %v, want an error with name, value and what is allowed", env, err)
		}
	}
}

func TestWrongCertificate(t *testing.T) {
	_, err := Start(newEnv(t, new(testkit.Log)), Config{Model: model.Default(), CertFile: "/no/such"})
	if err == nil || !strings.HasPrefix(err.Error(), `TLS_CERT: "/no/such" cannot be used: `) {
		t.Errorf("without the files: %v", err)
	}
}
