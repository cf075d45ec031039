package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// grid is what a terminal shows after the bytes that were sent: enough of ECMA-48 for a
// program that draws a whole screen.
type grid struct {
	rows, cols int
	y, x       int
	top, end   int // the scrolling rows
	cells      [][]rune
	alt        bool // the alternate screen
	hidden     bool // the cursor
	last       rune
	odd        []string // sequences that grid does not know
}

func newGrid(rows, cols int) *grid {
	g := &grid{rows: rows, cols: cols, end: rows}
	for range rows {
		g.cells = append(g.cells, g.blank())
	}
	return g
}

func (g *grid) blank() []rune { return []rune(strings.Repeat(" ", g.cols)) }

func (g *grid) String() string {
	lines := make([]string, g.rows)
	for i, l := range g.cells {
		lines[i] = strings.TrimRight(string(l), " ")
	}
	return strings.Join(lines, "\n")
}

// show draws all that was sent.
func (g *grid) show(s string) {
	for len(s) > 0 {
		switch c := s[0]; {
		case c == '\x1b' && len(s) > 1 && s[1] == '[':
			i := 2
			for i < len(s) && (s[i] < 0x40 || s[i] > 0x7e) {
				i++
			}
			if i == len(s) {
				return // the rest is still to come
			}
			g.control(s[2:i], s[i])
			s = s[i+1:]
		case c == '\x1b' && len(s) > 1 && strings.IndexByte("]P_^", s[1]) >= 0:
			end, skip := strings.Index(s, "\x1b\\"), 2
			if bell := strings.IndexByte(s, '\a'); bell >= 0 && (end < 0 || bell < end) {
				end, skip = bell, 1
			}
			if end < 0 {
				return
			}
			s = s[end+skip:]
		case c == '\x1b' && len(s) > 1:
			if s[1] == 'M' {
				g.lineUp()
			}
			n := 2
			if strings.IndexByte("()#", s[1]) >= 0 {
				n = min(3, len(s))
			}
			s = s[n:]
		case c == '\r':
			g.x, s = 0, s[1:]
		case c == '\n':
			g.lineDown()
			s = s[1:]
		case c == '\b':
			g.x, s = max(g.x-1, 0), s[1:]
		case c == '\t':
			g.x, s = min(g.x/8*8+8, g.cols-1), s[1:]
		case c < ' ':
			s = s[1:]
		default:
			r, n := utf8.DecodeRuneInString(s)
			g.put(r)
			s = s[n:]
		}
	}
}

func (g *grid) put(r rune) {
	if g.x >= g.cols {
		g.x = 0
		g.lineDown()
	}
	g.cells[g.y][g.x] = r
	g.last = r
	g.x++
}

func (g *grid) lineDown() {
	if g.y++; g.y == g.end {
		g.y--
		g.scroll(g.top, 1)
	}
	g.y = min(g.y, g.rows-1)
}

func (g *grid) lineUp() {
	if g.y == g.top {
		g.scroll(g.top, -1)
		return
	}
	g.y--
}

// scroll moves the rows from one on up by n, or down.
func (g *grid) scroll(from, n int) {
	for ; n > 0; n-- {
		copy(g.cells[from:g.end], g.cells[from+1:g.end])
		g.cells[g.end-1] = g.blank()
	}
	for ; n < 0; n++ {
		copy(g.cells[from+1:g.end], g.cells[from:g.end-1])
		g.cells[from] = g.blank()
	}
}

// clear empties cells of the row.
func (g *grid) clear(from, to int) {
	for i := max(from, 0); i < min(to, g.cols); i++ {
		g.cells[g.y][i] = ' '
	}
}

func (g *grid) control(args string, final byte) {
	if strings.HasPrefix(args, "?") {
		on := final == 'h'
		switch args {
		case "?1049":
			g.alt = on
		case "?25":
			g.hidden = !on
		}
		return
	}
	if strings.ContainsAny(args, "<=>$ !") || strings.IndexByte("mhlnctuqp", final) >= 0 {
		return // styles, modes and questions
	}
	var n []int
	for w := range strings.SplitSeq(args, ";") {
		v, _ := strconv.Atoi(w)
		n = append(n, v)
	}
	one := max(n[0], 1)
	switch final {
	case 'A':
		g.y = max(g.y-one, 0)
	case 'B', 'e':
		g.y = min(g.y+one, g.rows-1)
	case 'C', 'a':
		g.x = min(g.x+one, g.cols-1)
	case 'D':
		g.x = max(g.x-one, 0)
	case 'E':
		g.y, g.x = min(g.y+one, g.rows-1), 0
	case 'F':
		g.y, g.x = max(g.y-one, 0), 0
	case 'G', '`':
		g.x = min(one, g.cols) - 1
	case 'd':
		g.y = min(one, g.rows) - 1
	case 'H', 'f':
		g.y, g.x = min(one, g.rows)-1, 0
		if len(n) > 1 {
			g.x = min(max(n[1], 1), g.cols) - 1
		}
	case 'r':
		g.top, g.end = one-1, g.rows
		if len(n) > 1 && n[1] > 0 {
			g.end = min(n[1], g.rows)
		}
		g.y, g.x = 0, 0
	default:
		g.edit(n[0], one, final)
	}
}

// edit is a control that changes cells.
func (g *grid) edit(zero, one int, final byte) {
	switch final {
	case 'J':
		for i := range g.cells {
			if zero == 2 || zero == 0 && i > g.y || zero == 1 && i < g.y {
				g.cells[i] = g.blank()
			}
		}
		if zero != 2 {
			g.edit(zero, one, 'K')
		}
	case 'K':
		switch zero {
		case 0:
			g.clear(g.x, g.cols)
		case 1:
			g.clear(0, g.x+1)
		default:
			g.clear(0, g.cols)
		}
	case 'X':
		g.clear(g.x, g.x+one)
	case 'P':
		row := g.cells[g.y]
		copy(row[g.x:], row[min(g.x+one, g.cols):])
		g.clear(g.cols-one, g.cols)
	case '@':
		row := g.cells[g.y]
		copy(row[min(g.x+one, g.cols):], row[g.x:])
		g.clear(g.x, g.x+one)
	case 'b':
		for range one {
			g.put(g.last)
		}
	case 'L':
		g.scroll(g.y, -one)
	case 'M':
		g.scroll(g.y, one)
	case 'S':
		g.scroll(g.top, one)
	case 'T':
		g.scroll(g.top, -one)
	default:
		g.odd = append(g.odd, strconv.Itoa(zero)+string(final))
	}
}
