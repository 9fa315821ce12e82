/* coapload: a closed-loop CoAP load generator (one thread, Linux).
 *
 * Modes (-m):
 *   con, non   W outstanding GETs over S UDP sockets, as fast as answers come
 *   tcp        the same over S CoAP-over-TCP connections (RFC 8323)
 *   block      S parallel Block2 downloads of -u PATH (szx -z), one block in flight each
 *   observe    S observers (one socket each) on -u PATH; -n rounds of POST -x PATH, and the time
 *              until all were notified
 *   peers      one GET from each of -n source ports (memory per known peer)
 *
 * Every answer is checked: version, type, code 2.05, message ID (for an ACK), token.
 * A source port is dropped for a fresh one after -r messages, so that a message ID never recurs on
 * one endpoint. -g sends each batch as one UDP_SEGMENT (GSO) run and receives with UDP_GRO.
 * By default it polls without sleeping (use a dedicated core: taskset -c 1); -k makes it sleep
 * in the kernel. It prints one JSON line. Build: cc -O2 -Wall -o coapload coapload.c
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#define MAXW 16384
#define RB 64

static u64 now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void die(const char *m) {
    perror(m);
    exit(2);
}

/* Options. */
static const char *path = "hello", *query = 0, *mode = "con", *trig = "trig";
static int port = 5683, W = 16, S = 1, sleepy = 0, rotate = 60000, base = 10000, szx = 6, nn = 20,
           spid = 0, extra = 0, gso = 0;
static double dur = 3, warm = 0.5, tmo = 1.0;

/* Latency histogram: 32 buckets an octave, ns. */
static u64 hist[64 * 32];

static inline int hb(u64 v) {
    if (v < 32)
        return v;
    int e = 63 - __builtin_clzll(v);
    return (e - 4) * 32 + ((v >> (e - 5)) & 31);
}

static double hv(int i) {
    if (i < 32)
        return i;
    int e = i / 32 + 4;
    return (double)((32ull + (i & 31)) << (e - 5));
}

static double pct(double p) {
    u64 n = 0, c = 0;
    for (int i = 0; i < 64 * 32; i++)
        n += hist[i];
    if (!n)
        return 0;
    for (int i = 0; i < 64 * 32; i++) {
        c += hist[i];
        if (c >= n * p)
            return hv(i) / 1e3;
    }
    return 0;
}

/* Server statistics. */
struct st {
    double cpu, cpu_u, cpu_s, gen;
    long rss, cs;
};

static struct st pstat(void) {
    struct st r = {0};
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    r.gen =
        ru.ru_utime.tv_sec + ru.ru_stime.tv_sec + (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
    if (!spid)
        return r;
    char f[300], b[2048];
    snprintf(f, sizeof f, "/proc/%d/stat", spid);
    FILE *h = fopen(f, "r");
    if (!h)
        return r;
    size_t n = fread(b, 1, sizeof b - 1, h);
    b[n] = 0;
    fclose(h);
    char *q = strrchr(b, ')');
    unsigned long u, s;
    if (q && sscanf(q + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u, &s) == 2) {
        r.cpu_u = u / (double)sysconf(_SC_CLK_TCK);
        r.cpu_s = s / (double)sysconf(_SC_CLK_TCK);
    }
    snprintf(f, sizeof f, "/proc/%d/status", spid);
    if ((h = fopen(f, "r"))) {
        while (fgets(b, sizeof b, h))
            sscanf(b, "VmRSS: %ld", &r.rss);
        fclose(h);
    }
    snprintf(f, sizeof f, "/proc/%d/task", spid);
    DIR *d = opendir(f);
    struct dirent *e;
    double ns = 0; /* schedstat is finer than the 10 ms ticks of stat */
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.') {
            snprintf(f, sizeof f, "/proc/%d/task/%s/schedstat", spid, e->d_name);
            if ((h = fopen(f, "r"))) {
                double x;
                if (fscanf(h, "%lf", &x) == 1)
                    ns += x;
                fclose(h);
            }
            snprintf(f, sizeof f, "/proc/%d/task/%s/status", spid, e->d_name);
            if ((h = fopen(f, "r"))) {
                long x;
                while (fgets(b, sizeof b, h)) {
                    if (sscanf(b, "voluntary_ctxt_switches: %ld", &x) == 1)
                        r.cs += x;
                }
                fclose(h);
            }
        }
    if (d)
        closedir(d);
    r.cpu = ns > 0 ? ns / 1e9 : r.cpu_u + r.cpu_s;
    return r;
}

/* Request template: options as bytes. */
static int put_opt(u8 *o, int *last, int num, const u8 *v, int l) {
    int d = num - *last, n = 1;
    *last = num;
    u8 dn, ln;
    if (d < 13)
        dn = d;
    else {
        dn = 13;
        o[n++] = d - 13;
    }
    if (l < 13)
        ln = l;
    else {
        ln = 13;
        o[n++] = l - 13;
    }
    o[0] = dn << 4 | ln;
    memcpy(o + n, v, l);
    return n + l;
}

static int put_path(u8 *o, int *last, const char *p) {
    int n = 0;
    while (*p) {
        const char *e = strchrnul(p, '/');
        if (e > p)
            n += put_opt(o + n, last, 11, (const u8 *)p, e - p);
        p = *e ? e + 1 : e;
    }
    return n;
}

static int mk_opts(u8 *o, int obs, const char *p, int blk) {
    int last = 0, n = 0;
    if (extra)
        n += put_opt(o + n, &last, 3, (const u8 *)"localhost", 9);
    if (obs >= 0) {
        u8 x = obs;
        n += put_opt(o + n, &last, 6, &x, obs ? 1 : 0);
    }
    n += put_path(o + n, &last, p);
    if (query)
        n += put_opt(o + n, &last, 15, (const u8 *)query, strlen(query));
    if (extra)
        n += put_opt(o + n, &last, 17, (const u8 *)"", 0);
    if (blk >= 0) {
        u8 v[3] = {blk >> 16, blk >> 8, blk};
        int l = blk > 0xffff ? 3 : blk > 0xff ? 2 : 1;
        n += put_opt(o + n, &last, 23, v + 3 - l, l);
    }
    return n;
}

/* Answer parsing. */
struct msg {
    int type, code, mid, tkl, obs, blk, plen;
    const u8 *tok, *pay;
};

static int parse(const u8 *b, int n, struct msg *m) {
    if (n < 4 || b[0] >> 6 != 1)
        return -1;
    m->type = b[0] >> 4 & 3;
    m->tkl = b[0] & 15;
    m->code = b[1];
    m->mid = b[2] << 8 | b[3];
    m->obs = m->blk = -1;
    m->plen = 0;
    m->pay = 0;
    int i = 4;
    m->tok = b + i;
    i += m->tkl;
    if (i > n)
        return -1;
    int num = 0;
    while (i < n && b[i] != 0xff) {
        int d = b[i] >> 4, l = b[i] & 15;
        i++;
        if (d == 13)
            d = 13 + b[i++];
        else if (d == 14) {
            d = 269 + (b[i] << 8 | b[i + 1]);
            i += 2;
        } else if (d == 15)
            return -1;
        if (l == 13)
            l = 13 + b[i++];
        else if (l == 14) {
            l = 269 + (b[i] << 8 | b[i + 1]);
            i += 2;
        } else if (l == 15)
            return -1;
        num += d;
        if (i + l > n)
            return -1;
        int v = 0;
        for (int k = 0; k < l && k < 4; k++)
            v = v << 8 | b[i + k];
        if (num == 6)
            m->obs = v;
        if (num == 23)
            m->blk = v;
        i += l;
    }
    if (i < n) {
        m->pay = b + i + 1;
        m->plen = n - i - 1;
    }
    return 0;
}

/* Sockets. */
static int nextport;
static struct sockaddr_in srv;

static int mksock(u16 *pp) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        die("socket");
    int sz = 1 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &sz, sizeof sz);
    for (;;) {
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons(nextport)};
        int p = nextport++;
        if (nextport > 65500)
            nextport = 10000;
        if (p == port)
            continue;
        if (!bind(fd, (void *)&a, sizeof a)) {
            if (pp)
                *pp = p;
            break;
        }
        if (errno != EADDRINUSE)
            die("bind");
    }
    int on = 1;
    if (gso && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on))
        die("UDP_GRO");
    if (connect(fd, (void *)&srv, sizeof srv))
        die("connect");
    return fd;
}

struct slot {
    u64 t;
    u16 mid, gen;
    u16 sock;
    u8 busy;
};

struct sk {
    int fd, out, nfree;
    u32 sent;
    u16 port, mid;
    u16 *freel;
    int first;
    u8 dirty; /* tcp */
    u8 *rb;
    int rn;
};
static struct slot sl[MAXW];
static struct sk *sk;
static int ep;
static u64 ok, bad, badcode, late, rst, sep, lost, empties, idle_ns, ends_used, sendfail;
static u8 tmpl[300];
static int tl;
static u8 rbuf[RB][65536];
static u8 rcb[RB][64];
static struct mmsghdr rh[RB];
static struct iovec ri[RB];
static u8 sbuf[RB][320];
static struct mmsghdr sh[RB];
static struct iovec si[RB];

static void reopen(int i) {
    struct sk *s = &sk[i];
    if (s->fd >= 0)
        close(s->fd);
    s->fd = mksock(&s->port);
    s->sent = 0;
    s->mid = rand();
    ends_used++;
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
    epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &e);
}

static void fill(int i, u64 t) {
    struct sk *s = &sk[i];
    if (s->sent >= (u32)rotate) {
        if (s->out)
            return;
        reopen(i);
    }
    while (s->nfree && s->sent < (u32)rotate) {
        int n = 0;
        while (n < RB && s->nfree && s->sent < (u32)rotate) {
            int k = s->freel[--s->nfree];
            struct slot *z = &sl[k];
            u8 *b = sbuf[n];
            z->mid = s->mid++;
            z->gen++;
            z->t = t;
            z->busy = 1;
            s->sent++;
            s->out++;
            b[0] = (mode[0] == 'n' ? 0x54 : 0x44);
            b[1] = 1;
            b[2] = z->mid >> 8;
            b[3] = z->mid;
            b[4] = k >> 8;
            b[5] = k;
            b[6] = z->gen >> 8;
            b[7] = z->gen;
            memcpy(b + 8, tmpl, tl);
            si[n] = (struct iovec){b, 8 + tl};
            sh[n].msg_hdr = (struct msghdr){.msg_iov = &si[n], .msg_iovlen = 1};
            n++;
        }
        if (gso && n > 1) {
            char cb[CMSG_SPACE(2)] = {0};
            struct msghdr mh = {
                .msg_iov = si, .msg_iovlen = n, .msg_control = cb, .msg_controllen = sizeof cb};
            struct cmsghdr *q = CMSG_FIRSTHDR(&mh);
            q->cmsg_level = IPPROTO_UDP;
            q->cmsg_type = UDP_SEGMENT;
            q->cmsg_len = CMSG_LEN(2);
            u16 sg = 8 + tl;
            memcpy(CMSG_DATA(q), &sg, 2);
            if (sendmsg(s->fd, &mh, 0) < 0)
                sendfail++;
            continue;
        }
        int o = 0;
        while (o < n) {
            int r = sendmmsg(s->fd, sh + o, n - o, 0);
            if (r <= 0) {
                sendfail++;
                if (errno == ECONNREFUSED) {
                    continue;
                }
                break;
            }
            o += r;
        }
    }
}

static inline void release(int k) {
    struct sk *s = &sk[sl[k].sock];
    sl[k].busy = 0;
    s->out--;
    s->freel[s->nfree++] = k;
}

static void got(int i, const u8 *b, int n, u64 t) {
    if (n < 4 || b[0] >> 6 != 1) {
        bad++;
        return;
    }
    int type = b[0] >> 4 & 3;
    if (b[1] == 0) {
        if (type == 3) {
            rst++;
        } else
            sep++;
        return;
    }
    if (type == 0) {
        u8 a[4] = {0x60, 0, b[2], b[3]};
        if (send(sk[i].fd, a, 4, 0) < 0)
            sendfail++;
    }
    if ((b[0] & 15) != 4 || n < 8) {
        bad++;
        return;
    }
    int k = b[4] << 8 | b[5], g = b[6] << 8 | b[7];
    if (k >= W || sl[k].sock != i) {
        bad++;
        return;
    }
    if (!sl[k].busy || sl[k].gen != g) {
        late++;
        return;
    }
    if (type == 2 && (b[2] << 8 | b[3]) != sl[k].mid) {
        bad++;
        return;
    }
    if (b[1] != 0x45)
        badcode++;
    else
        ok++;
    hist[hb(t - sl[k].t)]++;
    release(k);
}

static int drain(int i, int flags, u64 *t) {
    int tot = 0;
    for (;;) {
        int n = recvmmsg(sk[i].fd, rh, RB, flags, 0);
        if (n <= 0)
            break;
        *t = now();
        for (int j = 0; j < n; j++) {
            int len = rh[j].msg_len, seg = len;
            if (gso) {
                for (struct cmsghdr *q = CMSG_FIRSTHDR(&rh[j].msg_hdr); q;
                     q = CMSG_NXTHDR(&rh[j].msg_hdr, q))
                    if (q->cmsg_level == IPPROTO_UDP && q->cmsg_type == UDP_GRO)
                        memcpy(&seg, CMSG_DATA(q), sizeof seg);
                rh[j].msg_hdr.msg_controllen = 64;
            }
            for (int o = 0; o < len; o += seg)
                got(i, rbuf[j] + o, len - o < seg ? len - o : seg, *t);
        }
        tot += n;
        if (n < RB)
            break;
        flags = MSG_DONTWAIT;
    }
    return tot;
}

static void reset(void) {
    ok = bad = badcode = late = rst = sep = lost = empties = idle_ns = sendfail = 0;
    memset(hist, 0, sizeof hist);
}

static void json(double el, struct st a, struct st b, struct rusage *g) {
    double c = b.cpu - a.cpu, tk = b.cpu_u + b.cpu_s - a.cpu_u - a.cpu_s;
    printf("{\"mode\":\"%s\",\"W\":%d,\"S\":%d,\"secs\":%.3f,\"ok\":%lu,\"rate\":%.0f,\"p50us\":%."
           "1f,\"p99us\":%.1f,\"p999us\":%.1f,\"lost\":%lu,\"badcode\":%lu,\"bad\":%lu,\"late\":%"
           "lu,\"rst\":%lu,\"sep\":%lu,\"sendfail\":%lu,\"endpoints\":%lu,\"nextport\":%d,\"gen_"
           "idle\":%.2f,\"gen_cpu\":%.3f,\"srv_cpu\":%.3f,\"srv_cpu_user\":%.3f,\"us_per_req\":%."
           "3f,\"rss0_kb\":%ld,\"rss1_kb\":%ld,\"cs_per_req\":%.4f}\n",
           mode, W, S, el, ok, ok / el, pct(.5), pct(.99), pct(.999), lost, badcode, bad, late, rst,
           sep, sendfail, ends_used, nextport, idle_ns / 1e9 / el, (b.gen - a.gen) / el, c / el,
           tk > 0 ? c / el * (b.cpu_u - a.cpu_u) / tk : 0, ok ? c * 1e6 / ok : 0, a.rss, b.rss,
           ok ? (double)(b.cs - a.cs) / ok : 0);
    (void)g;
}

static void setup_slots(void) {
    sk = calloc(S, sizeof *sk);
    for (int i = 0; i < S; i++) {
        sk[i].fd = -1;
        sk[i].freel = malloc(sizeof(u16) * (W / S + 2));
    }
    for (int k = 0; k < W; k++) {
        sl[k].sock = k % S;
        sk[k % S].freel[sk[k % S].nfree++] = k;
        sl[k].gen = rand();
    }
    for (int j = 0; j < RB; j++) {
        ri[j] = (struct iovec){rbuf[j], 65536};
        rh[j].msg_hdr = (struct msghdr){.msg_iov = &ri[j],
                                        .msg_iovlen = 1,
                                        .msg_control = gso ? rcb[j] : 0,
                                        .msg_controllen = gso ? 64 : 0};
    }
}

static void run_udp(void) {
    setup_slots();
    tl = mk_opts(tmpl, -1, path, -1);
    ep = epoll_create1(0);
    u64 t = now(), t0 = t, start = t + warm * 1e9, end = start + dur * 1e9, scan = t, last = t;
    int started = 0;
    struct st a = {0};
    struct timeval tv = {0, 20000};
    int peers = !strcmp(mode, "peers");
    if (peers) {
        rotate = 1;
        a = pstat();
        started = 1;
        end = t + 120 * 1000000000ull;
        start = t0;
    }
    for (int i = 0; i < S; i++) {
        reopen(i);
        if (sleepy)
            setsockopt(sk[i].fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        fill(i, t);
    }
    struct epoll_event ev[256];
    for (;;) {
        int n = 0;
        if (S == 1 && !peers) {
            n = drain(0, sleepy ? MSG_WAITFORONE : MSG_DONTWAIT, &t);
            if (n)
                fill(0, t);
        } else {
            int e = epoll_wait(ep, ev, 256, sleepy ? 20 : 0);
            for (int j = 0; j < e; j++) {
                int i = ev[j].data.u32;
                int m = drain(i, MSG_DONTWAIT, &t);
                n += m;
                if (m && !(peers && (int)ends_used >= nn))
                    fill(i, t);
            }
        }
        if (!n) {
            u64 x = now();
            idle_ns += x - last;
            empties++;
            t = x;
            last = x;
        } else
            last = now();
        if (t - scan > 20000000) {
            scan = t;
            int outst = 0;
            for (int k = 0; k < W; k++)
                if (sl[k].busy) {
                    outst++;
                    if (t - sl[k].t > tmo * 1e9) {
                        lost++;
                        release(k);
                    }
                }
            if (peers && (int)ends_used >= nn && !outst)
                break;
            if (!peers)
                for (int i = 0; i < S; i++)
                    if (sk[i].nfree) {
                        fill(i, t);
                    }
            if (S == 1 && sleepy)
                setsockopt(sk[0].fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        }
        if (!started && t >= start) {
            started = 1;
            reset();
            a = pstat();
            start = now();
            last = start;
            end = start + dur * 1e9;
        }
        if (started && t >= end)
            break;
    }
    u64 fin = now();
    struct st b = pstat();
    json((fin - start) / 1e9, a, b, 0);
}

static void run_tcp(void) {
    setup_slots();
    tl = mk_opts(tmpl, -1, path, -1);
    ep = epoll_create1(0);
    u64 t = now(), start = t + warm * 1e9, end = start + dur * 1e9, last = t;
    int started = 0;
    struct st a = {0};
    int olen = tl;
    static u8 ob[1 << 20];
    for (int i = 0; i < S; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
        if (connect(fd, (void *)&srv, sizeof srv))
            die("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        sk[i].fd = fd;
        sk[i].rb = malloc(1 << 20);
        u8 csm[2] = {0x00, 0xe1};
        if (write(fd, csm, 2) != 2)
            die("csm");
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
        ends_used++;
    }
    for (int i = 0; i < S; i++)
        sk[i].dirty = 1;
    struct epoll_event ev[256];
    for (;;) {
        for (int i = 0; i < S; i++)
            if (sk[i].dirty) {
                sk[i].dirty = 0;
                int o = 0;
                t = now();
                while (sk[i].nfree) {
                    int k = sk[i].freel[--sk[i].nfree];
                    struct slot *z = &sl[k];
                    z->gen++;
                    z->t = t;
                    z->busy = 1;
                    sk[i].out++;
                    u8 *p = ob + o;
                    if (olen < 13) {
                        *p++ = olen << 4 | 4;
                    } else {
                        *p++ = 0xd4;
                        *p++ = olen - 13;
                    }
                    *p++ = 1;
                    *p++ = k >> 8;
                    *p++ = k;
                    *p++ = z->gen >> 8;
                    *p++ = z->gen;
                    memcpy(p, tmpl, tl);
                    o = p + tl - ob;
                }
                for (int w = 0; w < o;) {
                    int r = write(sk[i].fd, ob + w, o - w);
                    if (r <= 0)
                        die("write");
                    w += r;
                }
            }
        int e = epoll_wait(ep, ev, 256, sleepy ? 20 : 0), n = 0;
        t = now();
        for (int j = 0; j < e; j++) {
            int i = ev[j].data.u32;
            struct sk *s = &sk[i];
            int r = recv(s->fd, s->rb + s->rn, (1 << 20) - s->rn, MSG_DONTWAIT);
            if (r == 0) {
                fprintf(stderr, "closed by server\n");
                exit(3);
            }
            if (r < 0)
                continue;
            s->rn += r;
            int o = 0;
            t = now();
            for (;;) {
                u8 *b = s->rb + o;
                int have = s->rn - o;
                if (have < 2)
                    break;
                int l = b[0] >> 4, h = 1, tk = b[0] & 15;
                if (l == 13) {
                    l = b[1] + 13;
                    h = 2;
                } else if (l == 14) {
                    if (have < 4)
                        break;
                    l = (b[1] << 8 | b[2]) + 269;
                    h = 3;
                } else if (l == 15) {
                    fprintf(stderr, "huge\n");
                    exit(3);
                }
                if (have < h + 1 + tk + l)
                    break;
                int code = b[h];
                if (code >> 5 == 7) {
                    if (code == 0xe2) {
                        u8 pg[2 + 8];
                        pg[0] = tk;
                        pg[1] = 0xe3;
                        memcpy(pg + 2, b + h + 1, tk);
                        if (write(s->fd, pg, 2 + tk) < 0)
                            die("pong");
                    } else if (code != 0xe1 && code != 0xe3) {
                        fprintf(stderr, "signal %x\n", code);
                        exit(3);
                    }
                } else if (tk != 4)
                    bad++;
                else {
                    u8 *q = b + h + 1;
                    int k = q[0] << 8 | q[1], g = q[2] << 8 | q[3];
                    if (k >= W || sl[k].sock != i || !sl[k].busy || sl[k].gen != g)
                        bad++;
                    else {
                        if (code == 0x45)
                            ok++;
                        else
                            badcode++;
                        hist[hb(t - sl[k].t)]++;
                        release(k);
                        s->dirty = 1;
                        n++;
                    }
                }
                o += h + 1 + tk + l;
            }
            memmove(s->rb, s->rb + o, s->rn - o);
            s->rn -= o;
        }
        if (!n) {
            u64 x = now();
            idle_ns += x - last;
            t = x;
            last = x;
        } else
            last = now();
        if (!started && t >= start) {
            started = 1;
            reset();
            a = pstat();
            start = now();
            last = start;
            end = start + dur * 1e9;
        }
        if (started && t >= end)
            break;
    }
    u64 fin = now();
    for (int k = 0; k < W; k++)
        if (sl[k].busy && fin - sl[k].t > tmo * 1e9)
            lost++;
    struct st b = pstat();
    json((fin - start) / 1e9, a, b, 0);
}

static int cmpd(const void *a, const void *b) {
    double x = *(double *)a, y = *(double *)b;
    return x < y ? -1 : x > y;
}

static void run_block(void) { /* S parallel downloads, nn downloads each */

    struct {
        int fd, num, done, bytes, z;
        u16 mid;
        u64 t0, ts;
    } *d = calloc(S, sizeof *d);

    ep = epoll_create1(0);
    double *tm = calloc(S * nn, sizeof(double));
    int nt = 0, active = S;
    struct epoll_event ev[256];
    u8 b[2048];
    u64 total = 0;
    struct st a = pstat();
    u64 t0 = now(), scan = t0;
#define SENDBLK(i)                                                                                 \
    do {                                                                                           \
        int o = 8;                                                                                 \
        b[0] = 0x44;                                                                               \
        b[1] = 1;                                                                                  \
        d[i].mid++;                                                                                \
        b[2] = d[i].mid >> 8;                                                                      \
        b[3] = d[i].mid;                                                                           \
        b[4] = i >> 8;                                                                             \
        b[5] = i;                                                                                  \
        b[6] = d[i].done >> 8;                                                                     \
        b[7] = d[i].done;                                                                          \
        o += mk_opts(b + 8, -1, path, d[i].num << 4 | d[i].z);                                     \
        d[i].ts = now();                                                                           \
        if (send(d[i].fd, b, o, 0) < 0)                                                            \
            sendfail++;                                                                            \
    } while (0)
    for (int i = 0; i < S; i++) {
        d[i].fd = mksock(0);
        ends_used++;
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(ep, EPOLL_CTL_ADD, d[i].fd, &e);
        d[i].t0 = now();
        d[i].mid = rand();
        d[i].z = szx;
        SENDBLK(i);
    }
    while (active && now() - t0 < 120ull * 1000000000) {
        int e = epoll_wait(ep, ev, 256, sleepy ? 20 : 0);
        for (int j = 0; j < e; j++) {
            int i = ev[j].data.u32;
            u8 r[2048];
            int n = recv(d[i].fd, r, sizeof r, MSG_DONTWAIT);
            struct msg m;
            if (n <= 0)
                continue;
            if (parse(r, n, &m) || m.tkl != 4) {
                bad++;
                continue;
            }
            if (m.code == 0) {
                sep++;
                continue;
            }
            if (m.type == 0) {
                u8 k[4] = {0x60, 0, r[2], r[3]};
                if (send(d[i].fd, k, 4, 0) < 0)
                    sendfail++;
            }
            if (m.code != 0x45) {
                badcode++;
                fprintf(stderr, "code %d.%02d at block %d\n", m.code >> 5, m.code & 31, d[i].num);
                exit(3);
            }
            if (m.tok[2] != (u8)(d[i].done >> 8) || m.tok[3] != (u8)d[i].done) {
                late++;
                continue;
            }
            int bn = m.blk >> 4, more = m.blk >> 3 & 1, sz = 16 << (m.blk & 7);
            if (m.blk < 0 || bn != d[i].num) {
                late++;
                continue;
            }
            for (int k = 0; k < m.plen; k += 97)
                if (m.pay[k] != (u8)(bn * sz + k)) {
                    bad++;
                    break;
                }
            if ((m.blk & 7) < d[i].z)
                d[i].z =
                    m.blk & 7; /* the server may answer with smaller blocks (from block 0 on) */
            ok++;
            d[i].bytes += m.plen;
            if (more) {
                d[i].num = bn + 1;
                SENDBLK(i);
            } else {
                tm[nt++] = (now() - d[i].t0) / 1e6;
                total += d[i].bytes;
                if (d[i].bytes != 1 << 20)
                    badcode++;
                d[i].bytes = 0;
                d[i].num = 0;
                d[i].z = szx;
                if (++d[i].done < nn) {
                    d[i].t0 = now();
                    SENDBLK(i);
                } else
                    active--;
            }
        }
        u64 t = now();
        if (t - scan > 100000000) {
            scan = t;
            for (int i = 0; i < S; i++)
                if (d[i].done < nn && t - d[i].ts > tmo * 1e9) {
                    lost++;
                    SENDBLK(i);
                }
        }
    }
    double el = (now() - t0) / 1e9;
    struct st z = pstat();
    qsort(tm, nt, sizeof(double), cmpd);
    double c = z.cpu - a.cpu;
    printf("{\"mode\":\"block\",\"par\":%d,\"transfers\":%d,\"ms_med\":%.2f,\"ms_min\":%.2f,\"ms_"
           "max\":%.2f,\"MBps\":%.1f,\"us_per_block\":%.2f,\"srv_cpu_us_per_block\":%.2f,\"lost\":%"
           "lu,\"bad\":%lu,\"badcode\":%lu,\"late\":%lu,\"nextport\":%d,\"rss0_kb\":%ld,\"rss1_"
           "kb\":%ld}\n",
           S, nt, nt ? tm[nt / 2] : 0, nt ? tm[0] : 0, nt ? tm[nt - 1] : 0, total / el / 1e6,
           ok ? el * 1e6 / ok : 0, ok ? c * 1e6 / ok : 0, lost, bad, badcode, late, nextport, a.rss,
           z.rss);
}

/* POST, or PUT of a number with -X, for servers that change a resource only so. */
static u8 trigger_code = 2;

static void run_observe(void) {
    int N = S;

    struct {
        int fd;
        int seen;
    } *o = calloc(N, sizeof *o);

    ep = epoll_create1(0);
    u8 b[2048];
    struct msg m;
    struct st a = pstat();
    int reg = 0;
    for (int i = 0; i < N; i++) {
        o[i].fd = mksock(0);
        ends_used++;
        int n = 8;
        b[0] = 0x44;
        b[1] = 1;
        b[2] = i >> 8;
        b[3] = i;
        b[4] = i >> 8;
        b[5] = i;
        b[6] = 0xab;
        b[7] = 0xcd;
        n += mk_opts(b + 8, 0, path, -1);
        if (send(o[i].fd, b, n, 0) < 0)
            sendfail++;
        struct timeval tv = {2, 0};
        setsockopt(o[i].fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        for (int k = 0; k < 3; k++) {
            n = recv(o[i].fd, b, sizeof b, 0);
            if (n > 0 && !parse(b, n, &m) && m.code == 0x45) {
                if (m.obs >= 0)
                    reg++;
                break;
            }
        }
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(ep, EPOLL_CTL_ADD, o[i].fd, &e);
    }
    usleep(300000);
    struct st r = pstat();
    int c = mksock(0);
    u16 mid = rand();
    double *tm = calloc(nn, sizeof(double)), *ft = calloc(nn, sizeof(double));
    int nt = 0;
    struct epoll_event ev[256];
    u64 notif = 0, con = 0, miss = 0;
    for (int rd = 1; rd <= nn; rd++) {
        int n = 8;
        mid++;
        b[0] = 0x44;
        b[1] = trigger_code;
        b[2] = mid >> 8;
        b[3] = mid;
        b[4] = 0xee;
        b[5] = 0xee;
        b[6] = rd >> 8;
        b[7] = rd;
        n += mk_opts(b + 8, -1, trig, -1);
        if (trigger_code == 3)
            n += sprintf((char *)b + n, "\xff%d", rd);
        u64 t0 = now(), t = t0, first = 0;
        if (send(c, b, n, 0) < 0)
            sendfail++;
        int left = N;
        while (left && t - t0 < 5000000000ull) {
            int e = epoll_wait(ep, ev, 256, sleepy ? 20 : 0);
            t = now();
            for (int j = 0; j < e; j++) {
                int i = ev[j].data.u32;
                int n = recv(o[i].fd, b, sizeof b, MSG_DONTWAIT);
                if (n <= 0 || parse(b, n, &m))
                    continue;
                if (m.code == 0)
                    continue;
                if (m.type == 0) {
                    u8 k[4] = {0x60, 0, b[2], b[3]};
                    if (send(o[i].fd, k, 4, 0) < 0)
                        sendfail++;
                    con++;
                }
                if (m.code != 0x45 || m.obs < 0) {
                    badcode++;
                    continue;
                }
                if (m.tkl != 4 || (m.tok[0] << 8 | m.tok[1]) != i) {
                    bad++;
                    continue;
                }
                notif++;
                if (!first)
                    first = now();
                if (o[i].seen != rd) {
                    o[i].seen = rd;
                    left--;
                }
            }
        }
        miss += left;
        tm[nt] = (now() - t0) / 1e6;
        ft[nt++] = first ? (first - t0) / 1e6 : -1;
        recv(c, b, sizeof b, MSG_DONTWAIT);
        usleep(50000);
        /* drain what came late */ for (;;) {
            int e = epoll_wait(ep, ev, 256, 0);
            if (e <= 0)
                break;
            for (int j = 0; j < e; j++) {
                int i = ev[j].data.u32;
                int n = recv(o[i].fd, b, sizeof b, MSG_DONTWAIT);
                if (n > 0 && !parse(b, n, &m) && m.type == 0) {
                    u8 k[4] = {0x60, 0, b[2], b[3]};
                    if (send(o[i].fd, k, 4, 0) < 0)
                        sendfail++;
                    con++;
                }
            }
        }
    }
    struct st z = pstat();
    qsort(tm, nt, sizeof(double), cmpd);
    qsort(ft, nt, sizeof(double), cmpd);
    double cpu = z.cpu - r.cpu;
    printf("{\"mode\":\"observe\",\"N\":%d,\"registered\":%d,\"rounds\":%d,\"ms_med\":%.2f,\"ms_"
           "min\":%.2f,\"ms_max\":%.2f,\"first_ms_med\":%.2f,\"us_per_notif\":%.2f,\"srv_cpu_us_"
           "per_notif\":%.2f,\"notifs\":%lu,\"con\":%lu,\"missing\":%lu,\"bad\":%lu,\"badcode\":%"
           "lu,\"rss_before_kb\":%ld,\"rss_reg_kb\":%ld,\"rss_end_kb\":%ld,\"bytes_per_observer\":%"
           ".0f,\"nextport\":%d}\n",
           N, reg, nt, tm[nt / 2], tm[0], tm[nt - 1], ft[nt / 2], tm[nt / 2] * 1e3 / N,
           notif ? cpu * 1e6 / notif : 0, notif, con, miss, bad, badcode, a.rss, r.rss, z.rss,
           (r.rss - a.rss) * 1024.0 / N, nextport);
}

int main(int argc, char **argv) {
    int c;
    while ((c = getopt(argc, argv, "p:u:q:w:s:d:W:t:m:r:b:P:kz:n:x:Xeg")) != -1)
        switch (c) {
        case 'p':
            port = atoi(optarg);
            break;
        case 'u':
            path = optarg;
            break;
        case 'q':
            query = optarg;
            break;
        case 'w':
            W = atoi(optarg);
            break;
        case 's':
            S = atoi(optarg);
            break;
        case 'd':
            dur = atof(optarg);
            break;
        case 'W':
            warm = atof(optarg);
            break;
        case 't':
            tmo = atof(optarg) / 1e3;
            break;
        case 'm':
            mode = optarg;
            break;
        case 'r':
            rotate = atoi(optarg);
            break;
        case 'b':
            base = atoi(optarg);
            break;
        case 'P':
            spid = atoi(optarg);
            break;
        case 'k':
            sleepy = 1;
            break;
        case 'z':
            szx = atoi(optarg);
            break;
        case 'n':
            nn = atoi(optarg);
            break;
        case 'x':
            trig = optarg;
            break;
        case 'X':
            trigger_code = 3;
            break;
        case 'e':
            extra = 1;
            break;
        case 'g':
            gso = 1;
            break;
        default:
            fprintf(stderr, "usage: coapload -m con|non|tcp|block|observe|peers -p PORT -u PATH -w "
                            "OUTSTANDING -s SOCKETS -d SECS -W WARMUP -t TIMEOUT_MS -r "
                            "MSGS_PER_PORT -b BASEPORT -P SERVER_PID -n COUNT -x TRIGGER [-X] -z SZX "
                            "[-q QUERY] [-e more options] [-g GSO/GRO] [-k sleep]\n");
            return 1;
        }
    if (W > MAXW || W < 1 || S < 1) {
        fprintf(stderr, "bad -w/-s\n");
        return 1;
    }
    int udp_get = !strcmp(mode, "con") || !strcmp(mode, "non") || !strcmp(mode, "tcp") ||
                  !strcmp(mode, "peers");
    if (udp_get && S > W) {
        fprintf(stderr, "S > W\n");
        return 1;
    }
    srand(getpid() ^ time(0));
    nextport = base;
    srv = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct rlimit rl;
    getrlimit(RLIMIT_NOFILE, &rl);
    rl.rlim_cur = rl.rlim_max;
    setrlimit(RLIMIT_NOFILE, &rl);
    if (!strcmp(mode, "tcp"))
        run_tcp();
    else if (!strcmp(mode, "block"))
        run_block();
    else if (!strcmp(mode, "observe"))
        run_observe();
    else
        run_udp();
    return 0;
}
