// Command calls has very many calls of gRPC at once, for tests. As "serve" it is a
// service that sends back what streams bring, and prints its URL; it ends with its
// standard input. As "hold ADDRESS CALLS CONNECTIONS" it is a client that opens
// streams, each with a message to and fro, and prints "held" when all are open.
// After a line on its standard input each has another message and is closed in
// good order, and it prints "done". With the first fault it ends.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience bounds the whole of it.
const patience = 5 * time.Minute

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = serve()
	case len(os.Args) == 5 && os.Args[1] == "hold":
		err = hold(os.Args[2], os.Args[3], os.Args[4])
	default:
		err = errors.New("usage: calls serve | calls hold ADDRESS CALLS CONNECTIONS")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// textCodec has messages that are texts.
type textCodec struct{}

func (textCodec) Marshal(v any) ([]byte, error) { return []byte(*v.(*string)), nil }

func (textCodec) Unmarshal(data []byte, v any) error {
	*v.(*string) = string(data)
	return nil
}

func (textCodec) Name() string { return "text" }

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodec(textCodec{}), grpc.UnknownServiceHandler(echo))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	fmt.Println("http://" + listener.Addr().String())
	return server.Serve(listener)
}

func echo(_ any, stream grpc.ServerStream) error {
	for {
		var text string
		err := stream.RecvMsg(&text)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.SendMsg(&text)
		}
		if err != nil {
			return err
		}
	}
}

func hold(address, callsText, connectionsText string) error {
	calls, err := strconv.Atoi(callsText)
	if err != nil {
		return err
	}
	connections, err := strconv.Atoi(connectionsText)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	clients := make([]*grpc.ClientConn, connections)
	for i := range clients {
		clients[i], err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(textCodec{})))
		if err != nil {
			return err
		}
		defer func() { _ = clients[i].Close() }() // everything is told by then
	}
	streams := make([]grpc.ClientStream, calls)
	if err := each(streams, func(i int) error {
		stream, err := clients[i%connections].NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Calls/Echo")
		if err != nil {
			return err
		}
		streams[i] = stream
		return converse(stream, i, "once")
	}); err != nil {
		return err
	}
	fmt.Println("held")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := each(streams, func(i int) error {
		if err := converse(streams[i], i, "again"); err != nil {
			return err
		}
		if err := streams[i].CloseSend(); err != nil {
			return err
		}
		var more string
		if err := streams[i].RecvMsg(&more); !errors.Is(err, io.EOF) {
			return fmt.Errorf("at the end: %q, %w", more, err)
		}
		return nil
	}); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// each calls f for every stream, some at a time, and returns the first error.
func each(streams []grpc.ClientStream, f func(i int) error) error {
	var group sync.WaitGroup
	failures := make(chan error, len(streams))
	next := make(chan int)
	for range 100 {
		group.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					failures <- fmt.Errorf("call %d: %w", i, err)
				}
			}
		})
	}
	for i := range streams {
		next <- i
	}
	close(next)
	group.Wait()
	close(failures)
	return <-failures
}

// converse sends a message and hears it again.
func converse(stream grpc.ClientStream, i int, what string) error {
	said, heard := fmt.Sprint(what, " ", i), ""
	if err := stream.SendMsg(&said); err != nil {
		return err
	}
	if err := stream.RecvMsg(&heard); err != nil {
		return err
	}
	if heard != said {
		return fmt.Errorf("said %q, heard %q", said, heard)
	}
	return nil
}
