// Command sluice is the gateway and the tools around it.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	command, err := root.ExecuteC()
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTold):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "sluice: %v\nRun '%s --help' for usage.\n", err, command.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "sluice: %v\n", err)
	return exitFailed
}

// errTold ends a command whose failure the user has read already.
var errTold = errors.New("told")

// usageError is a wrong use of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "An API gateway in one binary",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return &usageError{errors.New("a command is missing")}
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(
		newRun(), newDemo(), newInit(), newValidate(), newRoutes(), newExplain(), newStatus(), newDrain(), newUndrain(), newSchema(), newVersion(),
	)
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		command.DisableFlagsInUseLine = true // the usage lines name them
		if command.Name() == "completion" {
			tameCompletion(command)
		}
	}
	return root
}

// tameCompletion makes wrong uses of cobra's own command errors, like those of
// the others.
func tameCompletion(completion *cobra.Command) {
	completion.Short = "Print the completion script of a shell"
	completion.Args = noArguments
	completion.RunE = func(cmd *cobra.Command, _ []string) error {
		return &usageError{errors.New("name a shell: bash, fish, powershell or zsh")}
	}
	for _, shell := range completion.Commands() {
		shell.Args = noArguments
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show help for a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if found, _, err := cmd.Root().Find(args); err == nil {
				for _, command := range found.Commands() {
					names = append(names, command.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noArguments(cmd.Root(), args)
			}
			return found.Help()
		},
	}
}

// noArguments is for commands that take none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var text string
	switch {
	case cmd.HasSubCommands():
		text = fmt.Sprintf("no command is called %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += fmt.Sprintf("; did you mean %q?", near[0])
		}
	default:
		text = fmt.Sprintf("'%s' takes no argument %q", cmd.CommandPath(), args[0])
		if cmd.Flags().Lookup("config") != nil {
			text += "; name the file with -c"
		}
	}
	return &usageError{errors.New(text)}
}

// outputFlag adds -o and returns what it was set to, once parsed.
func outputFlag(cmd *cobra.Command, fallback string, formats ...string) func() (string, error) {
	all := append([]string{fallback}, formats...)
	value := cmd.Flags().StringP("output", "o", fallback, "output `FORMAT`: "+strings.Join(all, " or "))
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("BUG: " + err.Error())
	}
	return func() (string, error) {
		for _, format := range all {
			if format == *value {
				return format, nil
			}
		}
		return "", &usageError{fmt.Errorf("no output format is called %q; there are %s", *value, strings.Join(all, " and "))}
	}
}

// filled is a flag's text, which may be left out but not be empty: a variable
// of a script that is not set must not mean the default.
type filled string

// Set takes the text.
func (f *filled) Set(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	*f = filled(text)
	return nil
}

// String is the text.
func (f *filled) String() string { return string(*f) }

// Type is what help calls it.
func (*filled) Type() string { return "string" }

// filledFlag adds a flag whose text is never empty where it is given.
func filledFlag(cmd *cobra.Command, name, short, help string) *string {
	value := new(filled)
	cmd.Flags().VarP(value, name, short, help)
	return (*string)(value)
}
