package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/provider/file"
	"sluice/internal/telemetry"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [-c FILE]",
		Short: "Serve a configuration",
		Long: "Serve the configuration in FILE: by default sluice.yaml, else " + systemFile + `.

SIGHUP reads it again, SIGUSR1 reopens the access log, SIGTERM and SIGINT drain and
stop (a second one ends at once), SIGUSR2 hands the sockets to a new binary at the
same path and then drains.`,
		Args: noArguments,
	}
	flag := configFlag(cmd, "configuration `FILE`")
	level := cmd.Flags().String("log-level", "info", "least `LEVEL` that is logged: debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		path, err := configFile(*flag)
		if err != nil {
			return err
		}
		var at slog.Level
		if err := at.UnmarshalText([]byte(*level)); err != nil {
			return &usageError{fmt.Errorf("--log-level: no level is called %q; there are debug, info, warn and error", *level)}
		}
		sockets, err := app.Inherit()
		if err != nil {
			return err
		}
		paceCollector()
		stdout, stderr := telemetry.NewSharedWriter(cmd.OutOrStdout()), telemetry.NewSharedWriter(cmd.ErrOrStderr())
		log, endLog := processLog(stderr, at)
		defer endLog()
		gateway := app.New(app.Options{Source: file.New(path, file.Options{Logger: log}), Log: log, Stdout: stdout, Stderr: stderr, Sockets: sockets, Loops: spareProcessors})
		return serve(cmd, gateway, log, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	}
	return cmd
}

// serve runs a gateway until a signal ends it. Meanwhile it obeys the signals
// that are named.
func serve(cmd *cobra.Command, gateway *app.Gateway, log *slog.Logger, obeyed ...os.Signal) error {
	adoptStandardLog(log)
	signal.Ignore(syscall.SIGPIPE) // a reader of the log that leaves must not end the gateway
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	ends := make(chan os.Signal, 2)
	signal.Notify(ends, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(ends)
	steer := make(chan os.Signal, 8)
	if len(obeyed) > 0 { // of none, Notify makes all
		signal.Notify(steer, obeyed...)
	}
	defer signal.Stop(steer)
	ended := make(chan struct{})
	defer close(ended)
	go tidyCollector(ctx)
	go end(ends, ended, gateway, stop)
	go func() {
		for {
			select {
			case <-ended:
				return
			case s := <-steer:
				obey(ctx, s, gateway, log)
			}
		}
	}()
	err := gateway.Run(ctx)
	var refused *app.RefusedError
	if errors.As(err, &refused) {
		for _, problem := range refused.Problems {
			config.Print(cmd.ErrOrStderr(), problem)
		}
		return errTold
	}
	return err
}

// end obeys the signals that end the gateway: the first one drains, the second
// cuts, and a third has its usual effect.
func end(signals chan os.Signal, ended <-chan struct{}, gateway *app.Gateway, stop func()) {
	for range 2 {
		select {
		case <-signals:
			gateway.Stop()
			stop() // also a hand-over that is under way
		case <-ended:
			return
		}
	}
	signal.Stop(signals)
}

func obey(ctx context.Context, s os.Signal, gateway *app.Gateway, log *slog.Logger) {
	switch s {
	case syscall.SIGHUP:
		gateway.Reload()
	case syscall.SIGUSR1:
		gateway.ReopenLog()
	case syscall.SIGUSR2:
		if err := gateway.HandOver(ctx, [3]*os.File{os.Stdin, os.Stdout, os.Stderr}); err != nil {
			log.Error("the sockets stay here", "error", err)
		}
	}
}
