// A go-coap server with the resources of the interop tests; see README.md two folders up.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	piondtls "github.com/pion/dtls/v3"
	"github.com/plgd-dev/go-coap/v3/dtls"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/message/pool"
	"github.com/plgd-dev/go-coap/v3/mux"
	"github.com/plgd-dev/go-coap/v3/net"
	"github.com/plgd-dev/go-coap/v3/net/blockwise"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/tcp"
	tcpClient "github.com/plgd-dev/go-coap/v3/tcp/client"
	tcpServer "github.com/plgd-dev/go-coap/v3/tcp/server"
	"github.com/plgd-dev/go-coap/v3/udp"
	"github.com/plgd-dev/go-coap/v3/udp/client"
)

const (
	hello = "hello from go-coap, 32 bytes and then some"
	slow  = 1500 * time.Millisecond
	tick  = 200 * time.Millisecond
	// How long a representation of /ticks is good, in seconds.
	tickMaxAge = 1

	largeBytes = 1 << 20
	bulkBytes  = 4 << 10

	// The library has no names for the methods of RFC 8132; it passes their codes on.
	fetch  codes.Code = 5
	patch  codes.Code = 6
	iPatch codes.Code = 7
)

// The library has no resource for discovery.
var links = []struct{ path, attributes string }{
	{"/hello", `rt="carob.text";ct=0`},
	{"/store", `rt="carob.store";if="carob.p"`},
	{"/echo", `rt="carob.echo"`},
	{"/counter", `rt="carob.number";ct=0`},
	{"/slow", `rt="carob.text"`},
	{"/large", `rt="carob.bytes";ct=42`},
	{"/patch", `rt="carob.patch"`},
	{"/negotiate", `rt="carob.text";ct="0 50"`},
	{"/count", `rt="carob.number";if="carob.s";ct=0;obs`},
	{"/ticks", `rt="carob.number";if="carob.s";ct=0;obs`},
	{"/bulk", `rt="carob.number";if="carob.s";ct=0;obs`},
	{"/reverse", `rt="carob.reverse"`},
}

func main() {
	router := mux.NewRouter()
	router.DefaultHandleFunc(func(w mux.ResponseWriter, r *mux.Message) {
		if r.Code() == codes.Empty {
			// The library hands over the Reset of a notification. It would send the answer as a CON,
			// which is refused by another Reset, and so on without end.
			return
		}
		answer(w, codes.NotFound, message.TextPlain, nil)
	})
	store := &store{}
	patched := &patched{}
	count := newSubject(message.Confirmable, number)
	ticks := newSubject(message.NonConfirmable, number)
	ticks.maxAge = tickMaxAge
	for path, methods := range map[string]methods{
		"/.well-known/core": {codes.GET: discover},
		"/hello":            {codes.GET: greet},
		"/store":            {codes.GET: store.get, codes.PUT: store.put, codes.DELETE: store.delete},
		"/echo":             {codes.POST: echo(codes.Changed), codes.PUT: echo(codes.Changed), fetch: echo(codes.Content)},
		"/counter":          newSubject(message.Confirmable, number).methods(),
		"/slow":             {codes.GET: separate},
		"/large":            {codes.GET: large},
		"/patch":            {codes.GET: patched.get, patch: patched.append, iPatch: patched.set},
		"/negotiate":        {codes.GET: negotiate},
		"/count":            count.methods(),
		"/ticks":            ticks.methods(),
		"/reverse":          {codes.POST: reverse},
		"/bulk":             newSubject(message.Confirmable, bulk).methods(),
	} {
		router.HandleFunc(path, methods.serve)
	}
	go func() {
		for range time.Tick(tick) {
			ticks.change()
		}
	}()

	scheme := flag.String("scheme", "coap", "")
	certificate := flag.String("cert", "", "")
	key := flag.String("key", "", "")
	psk := flag.String("psk", "", "")
	clientCA := flag.String("client-ca", "", "")
	noCSM := flag.Bool("no-csm", false, "")
	_ = flag.CommandLine.Parse(os.Args[2:]) // it exits at an error
	address := "127.0.0.1:" + os.Args[1]
	report := options.WithErrors(func(err error) { log.Print(err) })
	if *scheme == "coaps" {
		config, err := secured(*psk, *certificate, *key, *clientCA)
		if err != nil {
			log.Fatal(err)
		}
		listener, err := net.NewDTLSListener("udp", address, config)
		if err != nil {
			log.Fatal(err)
		}
		log.Fatal(dtls.NewServer(options.WithMux(router), report).Serve(listener))
	}
	if *scheme != "coap" {
		listener, err := listen(address, *scheme, *certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		opts := []tcpServer.Option{
			options.WithMux(router),
			options.WithBlockwise(true, blockwise.SZXBERT, 2*time.Minute),
			// By default a client is forgotten 16 s after its last message.
			options.WithInactivityMonitor(10*time.Minute, func(cc *tcpClient.Conn) { _ = cc.Close() }),
			report,
		}
		if *noCSM {
			opts = append(opts, options.WithDisableTCPSignalMessageCSM())
		}
		log.Fatal(tcp.NewServer(opts...).Serve(listener))
	}
	listener, err := net.NewListenUDP("udp", address)
	if err != nil {
		log.Fatal(err)
	}
	server := udp.NewServer(
		options.WithMux(router),
		// By default a body is forgotten 3 s after its first block, and a client 16 s after its last
		// message. A transfer over a lossy path takes longer, and an observer may be silent.
		options.WithBlockwise(true, blockwise.SZX1024, 2*time.Minute),
		options.WithInactivityMonitor(10*time.Minute, func(cc *client.Conn) { _ = cc.Close() }),
		report,
	)
	log.Fatal(server.Serve(listener))
}

// secured is what DTLS needs: a key for an identity (`identity:key`), or a certificate, and who vouches
// for clients if they must have one.
func secured(psk, certificate, key, clientCA string) (*piondtls.Config, error) {
	config := &piondtls.Config{
		// Clients made for WebRTC offer to protect RTP, and so does the library below ours. Without a
		// profile of its own this library refuses who does, where RFC 5764 4.1.1 has a server pass over it.
		SRTPProtectionProfiles: []piondtls.SRTPProtectionProfile{piondtls.SRTP_AES128_CM_HMAC_SHA1_80},
	}
	if identity, secret, found := strings.Cut(psk, ":"); found {
		config.PSK = func(hint []byte) ([]byte, error) {
			if string(hint) != identity {
				return nil, errors.New("no such identity")
			}
			return []byte(secret), nil
		}
		config.CipherSuites = []piondtls.CipherSuiteID{piondtls.TLS_PSK_WITH_AES_128_CCM_8}
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{pair}
	if clientCA != "" {
		pem, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(pem)
		config.ClientAuth = piondtls.RequireAndVerifyClientCert
	}
	return config, nil
}

func listen(address, scheme, certificate, key string) (tcpServer.Listener, error) {
	if scheme == "coap+tcp" {
		return net.NewTCPListener("tcp", address)
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	// RFC 8323 8.2; the library leaves the protocol's name to the application.
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"coap"}}
	return net.NewTLSListener("tcp", address, config)
}

type methods map[codes.Code]func(mux.ResponseWriter, *mux.Message)

func (m methods) serve(w mux.ResponseWriter, r *mux.Message) {
	if method, known := m[r.Code()]; known {
		method(w, r)
	} else {
		answer(w, codes.MethodNotAllowed, message.TextPlain, nil)
	}
}

func answer(w mux.ResponseWriter, code codes.Code, format message.MediaType, payload []byte, opts ...message.Option) {
	var err error
	if payload == nil {
		err = w.SetResponse(code, format, nil, opts...)
	} else {
		err = w.SetResponse(code, format, bytes.NewReader(payload), opts...)
	}
	if err != nil {
		log.Print("cannot respond: ", err)
	}
}

func body(r *mux.Message) []byte {
	if r.Body() == nil {
		return []byte{}
	}
	payload, err := r.ReadBody()
	if err != nil {
		log.Print("cannot read a body: ", err)
	}
	return payload
}

func greet(w mux.ResponseWriter, _ *mux.Message) {
	answer(w, codes.Content, message.TextPlain, []byte(hello))
}

func echo(code codes.Code) func(mux.ResponseWriter, *mux.Message) {
	return func(w mux.ResponseWriter, r *mux.Message) {
		format, err := r.ContentFormat()
		if err != nil {
			format = message.AppOctets
		}
		answer(w, code, format, body(r))
	}
}

func large(w mux.ResponseWriter, r *mux.Message) {
	length := largeBytes
	if queries, err := r.Queries(); err == nil {
		if wanted, err := strconv.Atoi(queries[0]); err == nil && 0 <= wanted && wanted < length {
			length = wanted
		}
	}
	payload := make([]byte, length)
	for i := range payload {
		payload[i] = byte(uint32(i) * 2654435761 >> 13)
	}
	answer(w, codes.Content, message.AppOctets, payload)
}

// separate leaves the request without a response, so that the library acknowledges it by itself.
func separate(w mux.ResponseWriter, r *mux.Message) {
	conn := w.Conn()
	token := bytes.Clone(r.Token())
	time.AfterFunc(slow, func() {
		write(conn, token, message.Confirmable, func(response *pool.Message) {
			response.SetContentFormat(message.TextPlain)
			response.SetBody(strings.NewReader("sorry for the delay"))
		})
	})
}

// write sends a response of its own.
func write(conn mux.Conn, token message.Token, kind message.Type, fill func(*pool.Message)) {
	response := conn.AcquireMessage(conn.Context())
	defer conn.ReleaseMessage(response)
	response.SetCode(codes.Content)
	response.SetToken(token)
	response.SetType(kind)
	fill(response)
	if err := conn.WriteMessage(response); err != nil {
		log.Print("cannot write: ", err)
	}
}

// reverse asks whoever asks, over the same connection, and answers with what it gets.
func reverse(w mux.ResponseWriter, r *mux.Message) {
	conn := w.Conn()
	token := bytes.Clone(r.Token())
	go func() {
		ctx, cancel := context.WithTimeout(conn.Context(), 10*time.Second)
		defer cancel()
		got, err := conn.Get(ctx, "/hello")
		if err != nil {
			log.Print("the client does not answer: ", err)
			return
		}
		payload, err := got.ReadBody()
		if err != nil {
			log.Print("cannot read a body: ", err)
			return
		}
		write(conn, token, message.Confirmable, func(response *pool.Message) {
			response.SetCode(codes.Changed)
			response.SetContentFormat(message.TextPlain)
			response.SetBody(bytes.NewReader(payload))
		})
	}()
}

func negotiate(w mux.ResponseWriter, r *mux.Message) {
	accept, err := r.Accept()
	switch {
	case err != nil || accept == message.TextPlain:
		answer(w, codes.Content, message.TextPlain, []byte("as text"))
	case accept == message.AppJSON:
		answer(w, codes.Content, message.AppJSON, []byte(`{"as":"json"}`))
	default:
		answer(w, codes.NotAcceptable, message.TextPlain, nil)
	}
}

// discover answers with the links whose attributes match all queries (RFC 6690 4.1).
func discover(w mux.ResponseWriter, r *mux.Message) {
	queries, _ := r.Queries()
	var found []string
next:
	for _, link := range links {
		for _, query := range queries {
			if !matches(link.path, link.attributes, query) {
				continue next
			}
		}
		found = append(found, fmt.Sprintf("<%s>;%s", link.path, link.attributes))
	}
	answer(w, codes.Content, message.AppLinkFormat, []byte(strings.Join(found, ",")))
}

func matches(path, attributes, query string) bool {
	name, wanted, _ := strings.Cut(query, "=")
	fits := func(value string) bool {
		if prefix, any := strings.CutSuffix(wanted, "*"); any {
			return strings.HasPrefix(value, prefix)
		}
		return value == wanted
	}
	if name == "href" {
		return fits(path)
	}
	for _, attribute := range strings.Split(attributes, ";") {
		key, text, _ := strings.Cut(attribute, "=")
		if key != name {
			continue
		}
		for _, value := range strings.Split(strings.Trim(text, `"`), " ") {
			if fits(value) {
				return true
			}
		}
	}
	return false
}

type store struct {
	sync.Mutex
	payload []byte
}

func etag(payload []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(payload))
}

func has(r *mux.Message, id message.OptionID, value []byte) bool {
	for _, option := range r.Options() {
		if option.ID == id && bytes.Equal(option.Value, value) {
			return true
		}
	}
	return false
}

// refused answers when the request's conditions do not hold (RFC 7252 5.10.8).
func (s *store) refused(w mux.ResponseWriter, r *mux.Message) bool {
	holds := true
	if r.HasOption(message.IfNoneMatch) {
		holds = s.payload == nil
	}
	if r.HasOption(message.IfMatch) {
		holds = holds && s.payload != nil &&
			(has(r, message.IfMatch, nil) || has(r, message.IfMatch, etag(s.payload)))
	}
	if !holds {
		answer(w, codes.PreconditionFailed, message.TextPlain, nil)
	}
	return !holds
}

func (s *store) get(w mux.ResponseWriter, r *mux.Message) {
	s.Lock()
	defer s.Unlock()
	if s.payload == nil {
		answer(w, codes.NotFound, message.TextPlain, nil)
		return
	}
	etag := etag(s.payload)
	option := message.Option{ID: message.ETag, Value: etag}
	if has(r, message.ETag, etag) {
		answer(w, codes.Valid, message.TextPlain, nil, option)
	} else {
		answer(w, codes.Content, message.AppOctets, s.payload, option)
	}
}

func (s *store) put(w mux.ResponseWriter, r *mux.Message) {
	s.Lock()
	defer s.Unlock()
	if s.refused(w, r) {
		return
	}
	code := codes.Changed
	if s.payload == nil {
		code = codes.Created
	}
	s.payload = body(r)
	answer(w, code, message.TextPlain, nil)
}

func (s *store) delete(w mux.ResponseWriter, r *mux.Message) {
	s.Lock()
	defer s.Unlock()
	if s.refused(w, r) {
		return
	}
	s.payload = nil
	answer(w, codes.Deleted, message.TextPlain, nil)
}

type patched struct {
	sync.Mutex
	payload []byte
}

func (p *patched) get(w mux.ResponseWriter, _ *mux.Message) {
	p.Lock()
	defer p.Unlock()
	answer(w, codes.Content, message.AppOctets, p.payload)
}

func (p *patched) append(w mux.ResponseWriter, r *mux.Message) {
	p.Lock()
	defer p.Unlock()
	p.payload = append(p.payload, body(r)...)
	answer(w, codes.Changed, message.TextPlain, nil)
}

func (p *patched) set(w mux.ResponseWriter, r *mux.Message) {
	p.Lock()
	defer p.Unlock()
	p.payload = body(r)
	answer(w, codes.Changed, message.TextPlain, nil)
}

// subject is a number that POST increases, and those who observe it: the library keeps no list.
type subject struct {
	sync.Mutex
	count     int
	sequence  uint32
	kind      message.Type
	maxAge    uint32
	show      func(int) []byte
	observers map[string]observer
}

type observer struct {
	conn  mux.Conn
	token message.Token
}

func newSubject(kind message.Type, show func(int) []byte) *subject {
	return &subject{kind: kind, show: show, sequence: 1, observers: map[string]observer{}}
}

func number(count int) []byte {
	return []byte(fmt.Sprint(count))
}

func bulk(count int) []byte {
	payload := make([]byte, bulkBytes)
	for i := range payload {
		payload[i] = byte('a' + (i+count)%26)
	}
	return payload
}

func (s *subject) methods() methods {
	return methods{codes.GET: s.get, codes.POST: s.post}
}

func (s *subject) get(w mux.ResponseWriter, r *mux.Message) {
	s.Lock()
	defer s.Unlock()
	key := fmt.Sprintf("%v %x", w.Conn().RemoteAddr(), r.Token())
	var opts []message.Option
	if observe, err := r.Observe(); err == nil && observe == 0 {
		s.observers[key] = observer{w.Conn(), bytes.Clone(r.Token())}
		value := binary.BigEndian.AppendUint32(nil, s.sequence)
		opts = append(opts, message.Option{ID: message.Observe, Value: bytes.TrimLeft(value, "\x00")})
	} else if err == nil {
		delete(s.observers, key)
	}
	if s.maxAge > 0 {
		opts = append(opts, message.Option{ID: message.MaxAge, Value: []byte{byte(s.maxAge)}})
	}
	answer(w, codes.Content, message.TextPlain, s.show(s.count), opts...)
}

func (s *subject) post(w mux.ResponseWriter, _ *mux.Message) {
	answer(w, codes.Changed, message.TextPlain, number(s.change()))
}

func (s *subject) change() int {
	s.Lock()
	defer s.Unlock()
	s.count++
	s.sequence++
	count, sequence := s.count, s.sequence
	for key, observer := range s.observers {
		if observer.conn.Context().Err() != nil {
			delete(s.observers, key)
			continue
		}
		// A confirmable message is waited for until it is acknowledged.
		go write(observer.conn, observer.token, s.kind, func(response *pool.Message) {
			response.SetObserve(sequence)
			if s.maxAge > 0 {
				response.SetOptionUint32(message.MaxAge, s.maxAge)
			}
			response.SetContentFormat(message.TextPlain)
			response.SetBody(bytes.NewReader(s.show(count)))
		})
	}
	return count
}
