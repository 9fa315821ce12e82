/* Bare UDP responder: the physical limit of a server. Usage: udplimit MODE PORT [RCVBUF_BYTES]
 * MODE: rs   recvfrom and sendto
 *       mm   recvmmsg and sendmmsg
 *       ep   epoll, then recvfrom until EAGAIN and sendto
 *       gso  recvmmsg with UDP_GRO, one sendmsg with UDP_SEGMENT a run of datagrams
 * It turns a CoAP request in place into an ACK or NON 2.05 with the same message ID and token and a
 * payload of 32 bytes; it parses no options. Build: cc -O2 -Wall -o udplimit udplimit.c
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define B 64

static inline size_t reply(unsigned char *b, size_t n) {
    if (n < 4)
        return 0;
    unsigned t = b[0] & 15;
    if (4 + t > n)
        return 0;
    b[0] = (b[0] & 0x0f) | (((b[0] >> 4) & 3) == 0 ? 0x60 : 0x50);
    b[1] = 0x45;
    b[4 + t] = 0xff;
    memcpy(b + 5 + t, "hello world hello world hello wo", 32);
    return 5 + t + 32;
}

static unsigned char buf[B][65536];

int main(int c, char **v) {
    (void)c;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(atoi(v[2])),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (void *)&a, sizeof a)) {
        perror("bind");
        return 1;
    }
    const char *m = v[1];
    if (c > 3) {
        int z = atoi(v[3]);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &z, sizeof z);
    }
    if (!strcmp(m, "rs"))
        for (;;) {
            struct sockaddr_in p;
            socklen_t l = sizeof p;
            ssize_t n = recvfrom(fd, buf[0], 2048, 0, (void *)&p, &l);
            if (n > 0) {
                n = reply(buf[0], n);
                sendto(fd, buf[0], n, 0, (void *)&p, l);
            }
        }
    if (!strcmp(m, "ep")) {
        int e = epoll_create1(0);
        struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
        epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev);
        for (;;) {
            epoll_wait(e, &ev, 1, -1);
            for (;;) {
                struct sockaddr_in p;
                socklen_t l = sizeof p;
                ssize_t n = recvfrom(fd, buf[0], 2048, MSG_DONTWAIT, (void *)&p, &l);
                if (n < 0)
                    break;
                n = reply(buf[0], n);
                sendto(fd, buf[0], n, MSG_DONTWAIT, (void *)&p, l);
            }
        }
    }
    static struct mmsghdr h[B];
    static struct iovec io[B];
    static struct sockaddr_in sa[B];
    static char cb[B][64];
    int gso = !strcmp(m, "gso");
    if (gso) {
        int on = 1;
        if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on))
            perror("gro");
    }
    static unsigned char out[65536];
    for (;;) {
        for (int i = 0; i < B; i++) {
            io[i].iov_base = buf[i];
            io[i].iov_len = gso ? 65535 : 2048;
            h[i].msg_hdr = (struct msghdr){.msg_name = &sa[i],
                                           .msg_namelen = sizeof sa[i],
                                           .msg_iov = &io[i],
                                           .msg_iovlen = 1,
                                           .msg_control = gso ? cb[i] : 0,
                                           .msg_controllen = gso ? 64 : 0};
        }
        int n = recvmmsg(fd, h, B, MSG_WAITFORONE, 0);
        if (n <= 0)
            continue;
        if (!gso) {
            for (int i = 0; i < n; i++)
                io[i].iov_len = reply(buf[i], h[i].msg_len);
            int s = 0;
            while (s < n) {
                int k = sendmmsg(fd, h + s, n - s, 0);
                if (k <= 0)
                    k = 1;
                s += k;
            }
        } else
            for (int i = 0; i < n; i++) {
                int seg = h[i].msg_len;
                for (struct cmsghdr *q = CMSG_FIRSTHDR(&h[i].msg_hdr); q;
                     q = CMSG_NXTHDR(&h[i].msg_hdr, q))
                    if (q->cmsg_level == IPPROTO_UDP && q->cmsg_type == UDP_GRO)
                        seg = *(int *)CMSG_DATA(q);
                size_t o = 0, rl = 0;
                int cnt = 0;
                for (unsigned off = 0; off < h[i].msg_len; off += seg) {
                    size_t k =
                        h[i].msg_len - off < (unsigned)seg ? h[i].msg_len - off : (unsigned)seg;
                    unsigned char t[64];
                    memcpy(t, buf[i] + off, k > 20 ? 20 : k);
                    rl = reply(t, k);
                    memcpy(out + o, t, rl);
                    o += rl;
                    cnt++;
                }
                struct iovec x = {out, o};
                char cc[CMSG_SPACE(2)] = {0};
                struct msghdr mh = {.msg_name = &sa[i],
                                    .msg_namelen = sizeof sa[i],
                                    .msg_iov = &x,
                                    .msg_iovlen = 1};
                if (cnt > 1) {
                    mh.msg_control = cc;
                    mh.msg_controllen = sizeof cc;
                    struct cmsghdr *q = CMSG_FIRSTHDR(&mh);
                    q->cmsg_level = IPPROTO_UDP;
                    q->cmsg_type = UDP_SEGMENT;
                    q->cmsg_len = CMSG_LEN(2);
                    *(unsigned short *)CMSG_DATA(q) = rl;
                }
                sendmsg(fd, &mh, 0);
            }
    }
}
