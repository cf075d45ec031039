package papers

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Plot is curves over one axis.
type Plot struct {
	Title, X, Y string
	LogX        bool
	Max         float64 // of Y; 0: of the points
	Curves      []Curve
}

// Curve is the points of a thing.
type Curve struct {
	Name   string
	Points []Point
	Theirs bool // printed in a paper
}

// The size of a plot, and of its margins.
const (
	plotWidth, plotHeight         = 780.0, 360.0
	left, right, top, bottom      = 64.0, 250.0, 30.0, 44.0
	innerWidth                    = plotWidth - left - right
	innerHeight                   = plotHeight - top - bottom
	ticks                         = 5
	legendStep, legendAt, tickGap = 18.0, 12.0, 6.0
)

// colors suit readers who see few colors; curves differ by their dashes, too.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"}

// frame maps points to places of the picture.
type frame struct {
	loX, hiX, hiY float64
	log           bool
}

func (p *Plot) frame() frame {
	f := frame{loX: math.Inf(1), hiX: math.Inf(-1), hiY: p.Max, log: p.LogX}
	for _, c := range p.Curves {
		for _, at := range c.Points {
			f.loX, f.hiX = min(f.loX, at.X), max(f.hiX, at.X)
			if p.Max == 0 {
				f.hiY = max(f.hiY, at.Y)
			}
		}
	}
	if f.loX > f.hiX {
		f.loX, f.hiX = 1, 10
	}
	if f.log {
		f.loX = max(f.loX, 1e-9)
	}
	if f.hiX <= f.loX {
		f.hiX = f.loX + 1
	}
	if f.hiY <= 0 {
		f.hiY = 1
	}
	return f
}

func (f frame) x(x float64) float64 {
	if f.log {
		return left + innerWidth*math.Log(max(x, f.loX)/f.loX)/math.Log(f.hiX/f.loX)
	}
	return left + innerWidth*(x-f.loX)/(f.hiX-f.loX)
}

func (f frame) y(y float64) float64 { return top + innerHeight*(1-min(y, f.hiY)/f.hiY) }

// marksX are the values below the axis.
func (f frame) marksX() (list []float64) {
	if f.log {
		step := math.Pow(f.hiX/f.loX, 1./ticks)
		for k := range ticks + 1 {
			list = append(list, f.loX*math.Pow(step, float64(k)))
		}
		return list
	}
	for k := range ticks + 1 {
		list = append(list, f.loX+(f.hiX-f.loX)*float64(k)/ticks)
	}
	return list
}

// short is a number for an axis.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e6:
		return fmt.Sprintf("%.3gM", x/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.3gk", x/1e3)
	case a >= 1e3:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// svg draws a plot.
func (p *Plot) svg() string {
	var b strings.Builder
	esc, f := html.EscapeString, p.frame()
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\"><title>%s</title>\n", plotWidth, plotHeight, esc(p.Title))
	fmt.Fprintf(&b, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/><text x=\"%.0f\" y=\"18\" font-weight=\"bold\">%s</text>\n", plotWidth, plotHeight, left, esc(p.Title))
	for k := range ticks + 1 {
		y := f.hiY * float64(k) / ticks
		fmt.Fprintf(&b, "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%[3]f\" stroke=\"#ddd\"/><text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left, left+innerWidth, f.y(y), left-tickGap, f.y(y)+4, short(y))
	}
	for _, x := range f.marksX() {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n", f.x(x), top+innerHeight+3*tickGap, short(x))
	}
	fmt.Fprintf(&b, "<path d=\"M%.0f %.0fV%.0fH%.0f\" fill=\"none\" stroke=\"#444\"/>\n", left, top, top+innerHeight, left+innerWidth)
	fmt.Fprintf(&b, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n", left+innerWidth/2, plotHeight-tickGap, esc(p.X))
	fmt.Fprintf(&b, "<text transform=\"translate(14 %.0f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", top+innerHeight/2, esc(p.Y))
	for i, c := range p.Curves {
		c.svg(&b, f, i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c *Curve) svg(b *strings.Builder, f frame, i int) {
	color, dash := colors[i%len(colors)], ""
	if c.Theirs {
		dash = " stroke-dasharray=\"5 4\""
	}
	places := make([]string, len(c.Points))
	for k, at := range c.Points {
		places[k] = fmt.Sprintf("%.1f,%.1f", f.x(at.X), f.y(at.Y))
	}
	fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", strings.Join(places, " "), color, dash)
	if len(c.Points) <= 3*ticks {
		for _, at := range c.Points {
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s: %s, %s</title></circle>\n", f.x(at.X), f.y(at.Y), color, html.EscapeString(c.Name), short(at.X), short(at.Y))
		}
	}
	y := top + legendAt + legendStep*float64(i)
	fmt.Fprintf(b, "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%[3]f\" stroke=\"%s\" stroke-width=\"2\"%s/><text x=\"%.0f\" y=\"%.0f\">%s</text>\n", left+innerWidth+10, left+innerWidth+34, y, color, dash, left+innerWidth+40, y+4, html.EscapeString(c.Name))
}
