package rpc

import "strconv"

// Code is how a call ended (doc/statuscodes.md of grpc/grpc).
type Code int

// The codes. Those that a gateway has no use for are here so that the table is
// whole.
const (
	OK                 Code = 0
	Cancelled          Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16
)

var names = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// String is the code's name, or its number where it has none.
func (c Code) String() string {
	if c >= 0 && int(c) < len(names) {
		return names[c]
	}
	return c.Field()
}

// Field is the value of grpc-status.
func (c Code) Field() string { return strconv.Itoa(int(c)) }

// StatusOf is the status of HTTP that the code of a call stands for, as a number in
// text (google.rpc.Code): what a server of HTTP would have answered where the fault is
// its own. All others are 200.
func StatusOf(code string) int {
	switch code {
	case Unavailable.Field():
		return 503
	case DeadlineExceeded.Field():
		return 504
	case Unknown.Field(), Internal.Field(), DataLoss.Field():
		return 500
	case Unimplemented.Field():
		return 501
	case ResourceExhausted.Field():
		return 429
	}
	return 200
}
