package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
)

// completeJobs offers the jobs of the instance, and last, with their names.
func completeJobs(g *cli.Global, wanted func(launcher.JobInfo) bool) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := g.Dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		list, err := cli.QueryJobs(c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words := []cobra.Completion{cobra.CompletionWithDesc("last", "the newest job")}
		for _, j := range list {
			if wanted(j) {
				words = append(words, cobra.CompletionWithDesc(j.ID.String(), ui.Clean(j.Name)+" ("+j.State+")"))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

func anyJob(launcher.JobInfo) bool        { return true }
func liveJob(j launcher.JobInfo) bool     { return j.Code == nil }
func detachedJob(j launcher.JobInfo) bool { return j.Detached }
func openJob(j launcher.JobInfo) bool     { return j.Open }
func bagJob(j launcher.JobInfo) bool      { return cli.IsTasks(&j) }
func freeJob(j launcher.JobInfo) bool {
	return j.Code == nil && j.Held == "" && (cli.IsTasks(&j) || j.State == filch.Waiting.String())
}
func heldJob(j launcher.JobInfo) bool   { return j.Code == nil && j.Held != "" }
func failedBag(j launcher.JobInfo) bool { return cli.IsTasks(&j) && j.Code != nil && *j.Code != 0 }

// completeNodes offers the nodes of the instance.
func completeNodes(g *cli.Global) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := g.Dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		list, err := cli.QueryNodes(c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []cobra.Completion
		for _, n := range list {
			words = append(words, cobra.CompletionWithDesc(string(n.Node), n.State))
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completion adds the completions that need nothing but the names of commands and
// options; the commands' own files have no such code.
func completion(root *cobra.Command, g *cli.Global) {
	for name, f := range map[string]cobra.CompletionFunc{
		"info": completeJobs(g, anyJob), "explain": completeJobs(g, anyJob), "forecast": completeJobs(g, anyJob), "wait": completeJobs(g, anyJob),
		"cancel": completeJobs(g, liveJob), "attach": completeJobs(g, detachedJob), "logs": completeJobs(g, detachedJob),
		"hold": completeJobs(g, freeJob), "release": completeJobs(g, heldJob),
		"close": completeJobs(g, openJob), "tasks": completeJobs(g, bagJob), "retry": completeJobs(g, failedBag), "drain": completeNodes(g), "undrain": completeNodes(g),
		"down":   completeNodes(g),
		"policy": cobra.FixedCompletions([]string{"mlb", "mdl", "rlds", "flds", "adage", "auto"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		if c, _, err := root.Find([]string{name}); err == nil {
			c.ValidArgsFunction = f
		}
	}
	completeLists(root)
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		return
	}
	for _, option := range []string{"nodelist", "exclude"} {
		_ = run.RegisterFlagCompletionFunc(option, completeNodes(g))
	}
	for option, words := range map[string][]string{
		"distribution": {"block", "cyclic", "plane="}, "mpi": {"auto", "pmi1", "pmi2", "pmix", "none", "list"},
		"cpu-bind": {"none", "threads", "cores", "sockets", "ldoms", "rank", "map_cpu:", "mask_cpu:", "verbose,"}, "open-mode": {"append", "truncate"},
		"export": {"ALL", "NONE"},
	} {
		_ = run.RegisterFlagCompletionFunc(option, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	submit, _, err := root.Find([]string{"submit"})
	if err != nil {
		return
	}
	_ = submit.RegisterFlagCompletionFunc("to", completeJobs(g, openJob))
	_ = submit.MarkFlagDirname("chdir")
	for option, words := range map[string][]string{
		"keep": {"all", "failed", "none"}, "open-mode": {"append", "truncate"}, "export": {"ALL", "NONE"},
		"halt": {"now,fail=1", "soon,fail=1", "now,fail=10%", "now,success=1", "soon,done=100", "never"},
	} {
		_ = submit.RegisterFlagCompletionFunc(option, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// completeLists adds the values of the options of commands that list jobs.
func completeLists(root *cobra.Command) {
	var names, orders []string
	for i := range jobColumns {
		names, orders = append(names, jobColumns[i].name), append(orders, jobColumns[i].name, "-"+jobColumns[i].name)
	}
	for _, name := range []string{"ps", "history"} {
		if c, _, err := root.Find([]string{name}); err == nil {
			_ = c.RegisterFlagCompletionFunc("state", completeList(jobStates))
			_ = c.RegisterFlagCompletionFunc("columns", completeList(names))
			_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// completeList completes the last word of a list with commas.
func completeList(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		for _, w := range words {
			list = append(list, before+w)
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
