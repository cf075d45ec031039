package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// A bag runs on four launchers without a watcher, and with a browser, a Prometheus and
// followers of events. The two runs of a pair take turns to be first.
const (
	watchNodes     = 4
	watchSlots     = 4 // of each
	watchFollowers = 7
	watchNap       = "0.05" // seconds that a task sleeps
	watchPerSecond = 250    // tasks of the bag in a second, about
	scrapeEvery    = 5 * time.Second
	watchBar       = 1.03 // of the ratio
	watchBarMB     = 5
)

// watchWish is how much of it is measured.
type watchWish struct {
	pairs  int
	length time.Duration // of a run, about
}

// watchFigure is what watchers cost. A ratio is that of the CPU of our processes: launchers,
// keepers, runners and clients, without the tasks.
type watchFigure struct {
	What     string
	Pairs    int
	Ratio    float64 // median of the pairs
	Low      float64 // of the 95 % interval of the median
	High     float64
	Alone    float64 // CPU seconds of a run, median
	Watched  float64
	Clients  float64 // of Watched: the followers
	MB       float64 // memory that a node took more, median
	Requests int     // looks and scrapes that the watchers got in all runs
	Error    string  `json:",omitempty"`
}

// watch prints the cost of watchers.
func (b *bench) watch() []watchFigure {
	pairs, length := b.watched.pairs, b.watched.length
	fmt.Printf("\nCPU of our processes with a browser, metrics and %d event clients beside none: %d pairs of %v; then a browser alone beside none on idle launchers: %d pairs of %v\n\n", watchFollowers, pairs, length, pairs, b.idle)
	busy := watchFigure{What: "a bag, all watchers", Pairs: pairs}
	quiet := watchFigure{What: "idle, a browser", Pairs: pairs}
	o := &ours{exe: b.filch}
	env, err := o.up(b.scratch, fmt.Sprintf("bench-watch-%d", os.Getpid()), watchNodes, watchSlots, "--metrics", "127.0.0.1:0")
	if err == nil {
		w := &watchRun{ours: o, env: env}
		defer o.down(env)
		if w.list, err = o.nodes(env); err == nil {
			bag := func() error {
				n := max(1, int(length.Seconds()*watchPerSecond))
				return w.command("submit", "--wait", "--array", fmt.Sprintf("1-%d", n), "--", "sleep", watchNap)
			}
			err = w.measure(&busy, watchFollowers, true, bag)
		}
		if err == nil {
			err = w.measure(&quiet, 0, false, func() error { time.Sleep(b.idle); return nil })
		}
	}
	all := []watchFigure{busy, quiet}
	for i := range all {
		f := &all[i]
		if err != nil {
			f.Error = err.Error()
			fmt.Printf("%s: not measured: %v\n", f.What, err)
			continue
		}
		fmt.Printf("%-20s ratio %.3f [%.3f %.3f]  CPU %.3f s alone, %.3f s watched, of which followers %.3f s  %+.1f MB a node  %d looks and scrapes", f.What, f.Ratio, f.Low, f.High, f.Alone, f.Watched, f.Clients, f.MB, f.Requests)
		if i == 0 {
			fmt.Printf("  (bar: %.2f, %d MB)", watchBar, watchBarMB)
		}
		fmt.Println()
	}
	return all
}

// watchRun is the instance whose watchers are measured.
type watchRun struct {
	ours *ours
	env  []string
	list []node
}

func (w *watchRun) command(args ...string) error {
	cmd := exec.Command(w.ours.exe, args...)
	cmd.Env = w.env
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("filch %s: %w: %s", args[0], err, text)
	}
	return nil
}

// measure fills f with pairs of runs of a load; the first pair is not counted.
func (w *watchRun) measure(f *watchFigure, followers int, scrape bool, load func() error) error {
	var ratios, alone, watched, clients, mb []float64
	for i := range f.Pairs + 1 {
		var of [2]watchCost
		for k := range of {
			which := (i + k) % 2
			var c *watchers
			var err error
			if which == 1 {
				if c, err = w.attach(followers, scrape); err != nil {
					return err
				}
			}
			of[which], err = w.cost(c, load)
			if c != nil {
				f.Requests += c.detach()
			}
			if err != nil {
				return err
			}
		}
		if i == 0 {
			f.Requests = 0
			continue
		}
		ratios = append(ratios, of[1].cpu.Seconds()/of[0].cpu.Seconds())
		alone, watched = append(alone, of[0].cpu.Seconds()), append(watched, of[1].cpu.Seconds())
		clients = append(clients, of[1].clients.Seconds())
		mb = append(mb, megabytes(of[1].rss-of[0].rss)/float64(len(w.list)))
	}
	f.Ratio, f.Low, f.High = middle(ratios)
	f.Alone, _, _ = middle(alone)
	f.Watched, _, _ = middle(watched)
	f.Clients, _, _ = middle(clients)
	f.MB, _, _ = middle(mb)
	return nil
}

// middle is the median of a list, with the interval that has the median of the population
// with 95 % (order statistics: the signs are binomial). Few values give the whole range.
func middle(list []float64) (median, low, high float64) {
	slices.Sort(list)
	n := len(list)
	skip, chance, tail := 0, 1.0, 0.0
	for range n {
		chance /= 2
	}
	for i := range n / 2 { // i values on one side
		if tail += chance; tail > 0.025 {
			break
		}
		skip = i
		chance *= float64(n-i) / float64(i+1)
	}
	return (list[(n-1)/2] + list[n/2]) / 2, list[skip], list[n-1-skip]
}

// watchCost is what a run took.
type watchCost struct {
	cpu, clients time.Duration // all; the followers
	rss          int64         // of the launchers at the end
}

// cost runs the load, and counts the CPU of our processes meanwhile.
func (w *watchRun) cost(c *watchers, load func() error) (watchCost, error) {
	time.Sleep(calm / 2)
	ours := func() map[int]time.Duration {
		all := map[int]time.Duration{}
		for _, n := range w.list {
			all[n.PID] = threadCPU(n.PID)
			for _, child := range childrenOf(n.PID) {
				all[child] = threadCPU(child)
			}
		}
		return all
	}
	before, followed := ours(), c.cpu()
	err := load()
	cost := watchCost{clients: c.cpu() - followed}
	for pid, used := range ours() {
		cost.cpu += used - before[pid]
	}
	cost.cpu += cost.clients
	for _, n := range w.list {
		cost.rss += rssBytes(n.PID)
	}
	return cost, err
}

// watchers watch an instance until detach.
type watchers struct {
	run       *watchRun
	followers []*exec.Cmd
	stop      context.CancelFunc
	wait      sync.WaitGroup
	mu        sync.Mutex // guards got
	got       int        // looks and scrapes
}

func (c *watchers) cpu() (total time.Duration) {
	if c == nil {
		return 0
	}
	for _, f := range c.followers {
		total += threadCPU(f.Process.Pid)
	}
	return total
}

func (c *watchers) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got++
}

// attach starts the watchers. The program of this package is the browser and the Prometheus.
func (w *watchRun) attach(followers int, scrape bool) (*watchers, error) {
	c := &watchers{run: w}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	page, err := w.lines("dashboard")
	if err == nil {
		err = c.browse(ctx, page[0]+"live")
	}
	if err == nil && scrape {
		err = c.scrape(ctx)
	}
	for range followers {
		if err != nil {
			break
		}
		f := exec.Command(w.ours.exe, "events", "-f")
		f.Env = w.env
		if err = f.Start(); err == nil {
			c.followers = append(c.followers, f)
		}
	}
	if err != nil {
		c.detach()
		return nil, err
	}
	return c, nil
}

// lines is what a command prints.
func (w *watchRun) lines(args ...string) ([]string, error) {
	cmd := exec.Command(w.ours.exe, args...)
	cmd.Env = w.env
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("filch %s: %w", args[0], err)
	}
	list := strings.Fields(string(raw))
	if len(list) == 0 {
		return nil, fmt.Errorf("filch %s prints nothing", args[0])
	}
	return list, nil
}

// browse reads the looks of the dashboard.
func (c *watchers) browse(ctx context.Context, url string) error {
	body, err := open(ctx, url)
	if err != nil {
		return err
	}
	c.wait.Go(func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "event: view") {
				c.count()
			}
		}
	})
	return nil
}

// scrape reads the metrics of each node again and again.
func (c *watchers) scrape(ctx context.Context) error {
	var urls []string
	words, err := c.run.lines("metrics", "--targets")
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(strings.Join(words, ""), `"`) {
		if strings.HasPrefix(part, "127.0.0.1:") {
			urls = append(urls, "http://"+part+"/metrics")
		}
	}
	if len(urls) != watchNodes {
		return fmt.Errorf("%d of %d nodes serve metrics: %s", len(urls), watchNodes, words)
	}
	c.wait.Go(func() {
		tick := time.NewTicker(scrapeEvery)
		defer tick.Stop()
		for {
			for _, url := range urls {
				if body, err := open(ctx, url); err == nil {
					_, _ = io.Copy(io.Discard, body)
					_ = body.Close()
					c.count()
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// open asks for a page; the body ends with ctx.
func open(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		_ = r.Body.Close()
		return nil, fmt.Errorf("%s answers %s", url, r.Status)
	}
	return r.Body, nil
}

// detach ends the watchers, and returns how many looks and scrapes came.
func (c *watchers) detach() int {
	for _, f := range c.followers {
		_ = f.Process.Kill()
		_ = f.Wait()
	}
	c.stop()
	c.wait.Wait()
	_ = c.run.command("dashboard", "--stop") // none may be served after a failure
	return c.got
}
