package http1

// ReasonPhrase returns the reason phrase of a status code according to the IANA registry (RFC
// 9110 15, 6585, 4918, 5842, 8297, 8470, 7725), or "" if it has none.
func ReasonPhrase(status int) string {
	if status < 100 || status > 599 {
		return ""
	}
	row := reasons[status/100-1]
	if i := status % 100; i < len(row) {
		return row[i]
	}
	return ""
}

var reasons = [5][]string{
	{0: "Continue", 1: "Switching Protocols", 2: "Processing", 3: "Early Hints"},
	{
		0: "OK", 1: "Created", 2: "Accepted", 3: "Non-Authoritative Information", 4: "No Content",
		5: "Reset Content", 6: "Partial Content", 7: "Multi-Status", 8: "Already Reported", 26: "IM Used",
	},
	{
		0: "Multiple Choices", 1: "Moved Permanently", 2: "Found", 3: "See Other", 4: "Not Modified",
		5: "Use Proxy", 7: "Temporary Redirect", 8: "Permanent Redirect",
	},
	{
		0: "Bad Request", 1: "Unauthorized", 2: "Payment Required", 3: "Forbidden", 4: "Not Found",
		5: "Method Not Allowed", 6: "Not Acceptable", 7: "Proxy Authentication Required", 8: "Request Timeout",
		9: "Conflict", 10: "Gone", 11: "Length Required", 12: "Precondition Failed", 13: "Content Too Large",
		14: "URI Too Long", 15: "Unsupported Media Type", 16: "Range Not Satisfiable", 17: "Expectation Failed",
		21: "Misdirected Request", 22: "Unprocessable Content", 23: "Locked", 24: "Failed Dependency",
		25: "Too Early", 26: "Upgrade Required", 28: "Precondition Required", 29: "Too Many Requests",
		31: "Request Header Fields Too Large", 51: "Unavailable For Legal Reasons",
	},
	{
		0: "Internal Server Error", 1: "Not Implemented", 2: "Bad Gateway", 3: "Service Unavailable",
		4: "Gateway Timeout", 5: "HTTP Version Not Supported", 6: "Variant Also Negotiates",
		7: "Insufficient Storage", 8: "Loop Detected", 10: "Not Extended", 11: "Network Authentication Required",
	},
}
