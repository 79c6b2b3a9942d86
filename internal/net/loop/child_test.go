package loop

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/test/testkit"
)

// TestMain makes the test binary an echo server with few descriptors, as a child.
func TestMain(m *testing.M) {
	testkit.Main(m, func() {
		if err := runChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// runChild serves until its standard input ends. Each line on it is answered
// with the count of accept errors.
func runChild() error {
	const descriptors = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: descriptors, Max: descriptors}); err != nil {
		return err
	}
	g, err := Start(Config{Loops: 1, ConnectionsMax: 10000})
	if err != nil {
		return err
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ln := g.Serve(socket, nil, echo)
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(g.Stats().AcceptErrors.Load())
	}
	return nil
}

type child struct {
	addr string
	in   io.Writer
	out  *bufio.Reader
}

func startChild(t *testing.T) *child {
	t.Helper()
	cmd := testkit.Command(t, nil)
	cmd.Stderr = os.Stderr
	in := testkit.Must(cmd.StdinPipe())(t)
	out := testkit.Must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
	})
	c := &child{in: in, out: bufio.NewReader(out)}
	c.addr = c.line(t)
	return c
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child ended: %v", err)
	}
	return strings.TrimSpace(s)
}

func (c *child) acceptErrors(t *testing.T) int {
	t.Helper()
	if _, err := io.WriteString(c.in, "stats\n"); err != nil {
		t.Fatal(err)
	}
	n := testkit.Must(strconv.Atoi(c.line(t)))(t)
	return n
}
