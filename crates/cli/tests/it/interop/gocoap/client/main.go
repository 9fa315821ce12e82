// One request, or one observation, by go-coap; see README.md two folders up.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	piondtls "github.com/pion/dtls/v3"
	"github.com/plgd-dev/go-coap/v3/dtls"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/message/pool"
	"github.com/plgd-dev/go-coap/v3/mux"
	"github.com/plgd-dev/go-coap/v3/net/blockwise"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/tcp"
	"github.com/plgd-dev/go-coap/v3/udp"
)

const textMax = 64

// The library has no names for the last three, which are of RFC 8132; it sends what it is given.
var methods = map[string]codes.Code{
	"get": codes.GET, "put": codes.PUT, "post": codes.POST, "delete": codes.DELETE,
	"fetch": 5, "patch": 6, "ipatch": 7, "observe": codes.GET,
	"many": codes.GET, "ping": codes.Empty,
}

type arguments struct {
	payload, output, cancel          string
	ca, then, psk, cert, key         string
	non, ifNoneMatch, noCSM          bool
	accept, contentFormat, blockSize int
	ifMatch, etag                    values
	option                           numbered
	count                            int
	timeout, linger                  float64
}

// values are byte strings in hexadecimal, one each time the flag is given.
type values [][]byte

func (v *values) String() string { return "" }

func (v *values) Set(text string) error {
	value, err := hex.DecodeString(text)
	*v = append(*v, value)
	return err
}

// numbered are options by their numbers, as in 65001=0aff.
type numbered []message.Option

func (n *numbered) String() string { return "" }

func (n *numbered) Set(text string) error {
	id, digits, _ := strings.Cut(text, "=")
	number, err := strconv.ParseUint(id, 10, 16)
	if err != nil {
		return err
	}
	value, err := hex.DecodeString(digits)
	*n = append(*n, message.Option{ID: message.OptionID(number), Value: value})
	return err
}

func main() {
	if err := run(os.Args[1], os.Args[2], parse(os.Args[3:])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(words []string) arguments {
	var a arguments
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	flags.StringVar(&a.payload, "payload", "", "")
	flags.StringVar(&a.output, "output", "", "")
	flags.BoolVar(&a.non, "non", false, "")
	flags.IntVar(&a.accept, "accept", -1, "")
	flags.IntVar(&a.contentFormat, "content-format", -1, "")
	flags.Var(&a.ifMatch, "if-match", "")
	flags.BoolVar(&a.ifNoneMatch, "if-none-match", false, "")
	flags.Var(&a.etag, "etag", "")
	flags.IntVar(&a.blockSize, "block-size", 1024, "")
	flags.Float64Var(&a.timeout, "timeout", 90, "")
	flags.IntVar(&a.count, "count", 1, "")
	flags.StringVar(&a.cancel, "cancel", "get", "")
	flags.Float64Var(&a.linger, "linger", 0, "")
	flags.Var(&a.option, "option", "")
	flags.StringVar(&a.ca, "ca", "", "")
	flags.StringVar(&a.psk, "psk", "", "")
	flags.StringVar(&a.cert, "cert", "", "")
	flags.StringVar(&a.key, "key", "", "")
	flags.StringVar(&a.then, "then", "", "")
	flags.BoolVar(&a.noCSM, "no-csm", false, "")
	_ = flags.Parse(words) // it exits at an error
	if a.cancel == "rst" {
		// The library acknowledges notifications that nobody waits for.
		fmt.Fprintln(os.Stderr, "go-coap cannot answer with Reset")
		os.Exit(2)
	}
	return a
}

func seconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Second))
}

func run(method, uri string, a arguments) error {
	target, err := url.Parse(uri)
	if err != nil {
		return err
	}
	limit := seconds(a.timeout)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := dial(target, limit, a)
	if err != nil {
		return err
	}
	defer conn.Close()
	if method == "ping" {
		return conn.Ping(ctx)
	}
	request, err := build(ctx, conn, methods[method], target, a)
	if err != nil {
		return err
	}
	switch method {
	case "observe":
		return observe(ctx, conn, request, a)
	case "many":
		return many(ctx, conn, request, a)
	}
	response, err := conn.Do(request)
	if err != nil {
		return fmt.Errorf("no response: %w", err)
	}
	err = show(response, a.output)
	if target.Scheme == "coap" {
		// The library hands over a separate response before it acknowledges it, and closing is at once.
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

func dial(target *url.URL, limit time.Duration, a arguments) (mux.Conn, error) {
	report := options.WithErrors(func(err error) { fmt.Fprintln(os.Stderr, err) })
	if target.Scheme == "coap" {
		return udp.Dial(target.Host,
			options.WithBlockwise(true, size(a.blockSize), limit),
			// Looked at every 4 s by default, which delays what is to be repeated after 2.
			options.WithPeriodicRunner(func(check func(time.Time) bool) {
				go func() {
					for check(time.Now()) {
						time.Sleep(100 * time.Millisecond)
					}
				}()
			}),
			report,
		)
	}
	if target.Scheme == "coaps" {
		config, err := secured(a)
		if err != nil {
			return nil, err
		}
		return dtls.Dial(target.Host, config, report)
	}
	// What the server asks in turn (`/reverse`).
	router := mux.NewRouter()
	router.HandleFunc("/hello", func(w mux.ResponseWriter, _ *mux.Message) {
		_ = w.SetResponse(codes.Content, message.TextPlain, strings.NewReader("hello from the client"))
	})
	opts := []tcp.Option{
		options.WithBlockwise(true, blockwise.SZXBERT, limit),
		// By default one request at a time.
		options.WithLimitClientParallelRequest(0),
		options.WithLimitClientEndpointParallelRequest(0),
		options.WithMux(router),
		report,
	}
	if target.Scheme == "coaps+tcp" {
		config, err := trusting(a.ca)
		if err != nil {
			return nil, err
		}
		opts = append(opts, options.WithTLS(config))
	}
	if a.noCSM {
		opts = append(opts, options.WithDisableTCPSignalMessageCSM())
	}
	conn, err := tcp.Dial(target.Host, opts...)
	if err != nil {
		return nil, err
	}
	// Until it has the server's CSM, the library does not put together what comes in blocks.
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return conn, conn.Ping(ctx)
}

// secured is what DTLS needs: an identity and its key (`identity:key`), or whom to trust, and our own
// certificate if there is one.
func secured(a arguments) (*piondtls.Config, error) {
	if identity, secret, found := strings.Cut(a.psk, ":"); found {
		return &piondtls.Config{
			PSK:             func([]byte) ([]byte, error) { return []byte(secret), nil },
			PSKIdentityHint: []byte(identity),
			CipherSuites:    []piondtls.CipherSuiteID{piondtls.TLS_PSK_WITH_AES_128_CCM_8},
		}, nil
	}
	trusted, err := trusting(a.ca)
	if err != nil {
		return nil, err
	}
	config := &piondtls.Config{RootCAs: trusted.RootCAs, ServerName: "127.0.0.1"}
	if a.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func trusting(file string) (*tls.Config, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + file)
	}
	// RFC 8323 8.2; the library leaves the protocol's name to the application.
	return &tls.Config{RootCAs: roots, NextProtos: []string{"coap"}}, nil
}

// size is the exponent of a block size; 16 is 0 (RFC 7959 2.2).
func size(bytes int) blockwise.SZX {
	exponent := blockwise.SZX16
	for 16<<exponent < bytes {
		exponent++
	}
	return exponent
}

func build(ctx context.Context, conn mux.Conn, code codes.Code, target *url.URL, a arguments) (*pool.Message, error) {
	request, err := conn.NewGetRequest(ctx, target.Path)
	if err != nil {
		return nil, err
	}
	request.SetCode(code)
	if target.RawQuery != "" {
		for _, query := range strings.Split(target.RawQuery, "&") {
			request.AddQuery(query)
		}
	}
	if a.non {
		request.SetType(message.NonConfirmable)
	}
	if a.accept >= 0 {
		request.SetAccept(message.MediaType(a.accept))
	}
	for _, value := range a.ifMatch {
		request.AddOptionBytes(message.IfMatch, value)
	}
	if a.ifNoneMatch {
		request.AddOptionBytes(message.IfNoneMatch, nil)
	}
	for _, value := range a.etag {
		if err := request.AddETag(value); err != nil {
			return nil, err
		}
	}
	for _, option := range a.option {
		request.AddOptionBytes(option.ID, option.Value)
	}
	if a.blockSize < 1024 && code == codes.GET {
		request.SetOptionUint32(message.Block2, uint32(size(a.blockSize)))
	}
	if a.payload != "" {
		payload, err := os.ReadFile(a.payload)
		if err != nil {
			return nil, err
		}
		request.SetBody(bytes.NewReader(payload))
	}
	if a.contentFormat >= 0 {
		request.SetContentFormat(message.MediaType(a.contentFormat))
	}
	return request, nil
}

func read(response *pool.Message) ([]byte, error) {
	if response.Body() == nil {
		return nil, nil
	}
	return response.ReadBody()
}

func show(response *pool.Message, output string) error {
	payload, err := read(response)
	if err != nil {
		return err
	}
	if output != "" {
		if err := os.WriteFile(output, payload, 0o644); err != nil {
			return err
		}
	}
	code := response.Code()
	fmt.Printf("%d.%02d\n", code>>5, code&0x1f)
	if etag, err := response.ETag(); err == nil {
		fmt.Printf("etag %x\n", etag)
	}
	if format, err := response.ContentFormat(); err == nil {
		fmt.Printf("content-format %d\n", format)
	}
	return nil
}

func observe(ctx context.Context, conn mux.Conn, request *pool.Message, a arguments) error {
	request.SetObserve(0)
	lines := make(chan string, 1024)
	observation, err := conn.DoObserve(request, func(notification *pool.Message) {
		payload, err := read(notification)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		select {
		case lines <- line(payload):
		default: // more than anybody asked for
		}
	})
	if err != nil {
		return err
	}
	for left := a.count; left > 0; left-- {
		select {
		case line := <-lines:
			fmt.Println(line)
		case <-ctx.Done():
			return errors.New("too few notifications in time")
		}
	}
	if a.cancel == "get" {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := observation.Cancel(ctx); err != nil {
			return fmt.Errorf("cannot cancel: %w", err)
		}
	}
	time.Sleep(seconds(a.linger))
	return nil
}

// many asks for one thing and then, without waiting, several times for another; it prints the codes
// in the order in which the answers come.
func many(ctx context.Context, conn mux.Conn, first *pool.Message, a arguments) error {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, a.count+1)
	ask := func(name string, request *pool.Message) {
		response, err := conn.Do(request)
		if err != nil {
			answers <- answer{err: err}
			return
		}
		code := response.Code()
		answers <- answer{line: fmt.Sprintf("%s %d.%02d", name, code>>5, code&0x1f)}
	}
	go ask("first", first)
	// The first has to be the first on the wire.
	time.Sleep(100 * time.Millisecond)
	for i := 0; i < a.count; i++ {
		request, err := conn.NewGetRequest(ctx, "/"+a.then)
		if err != nil {
			return err
		}
		go ask("then", request)
	}
	for i := 0; i <= a.count; i++ {
		answer := <-answers
		if answer.err != nil {
			return answer.err
		}
		fmt.Println(answer.line)
	}
	return nil
}

func line(payload []byte) string {
	if len(payload) <= textMax {
		return string(payload)
	}
	return fmt.Sprintf("%d bytes crc32 %08x", len(payload), crc32.ChecksumIEEE(payload))
}
