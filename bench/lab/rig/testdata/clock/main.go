// Clock prints the time, in ns since the epoch.
package main

import (
	"os"
	"strconv"
	"time"
)

func main() { os.Stdout.WriteString(strconv.FormatInt(time.Now().UnixNano(), 10)) }
