package dashboard

import (
	"encoding/json"
	"net/http"
)

// live sends the looks to a browser as server-sent events, until the browser goes away or
// reads nothing for writeWait.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	seat, err := s.feed.join()
	if err != nil {
		s.refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer s.feed.leave(seat)
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	hello, err := json.Marshal(map[string]string{"instance": s.cfg.Instance})
	s.within(w, writeWait)
	if err == nil {
		_, err = w.Write(eventOf("hello", hello))
	}
	if err != nil || c.Flush() != nil {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-seat.news:
		}
		s.within(w, writeWait)
		if _, err := w.Write(s.feed.event()); err != nil || c.Flush() != nil {
			return
		}
	}
}

// refuse answers with a text for the page.
func (s *Server) refuse(w http.ResponseWriter, code int, text string) {
	s.within(w, writeWait)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}
