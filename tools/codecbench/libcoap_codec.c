/*
 * Nanoseconds that libcoap takes to decode and encode the message of crates/codec/benches/codec.rs.
 *
 * Needs libcoap 4.3 with its static library (Debian: libcoap3-dev):
 *
 *     cc -O2 -Wall -o libcoap_codec libcoap_codec.c -l:libcoap-3-notls.a && ./libcoap_codec
 *
 * Linked statically because encoding the header is not among the functions the shared library
 * exports. libcoap allocates a PDU for every message it receives or sends, so that the figures with
 * an allocation are the ones an application pays; those without show the codec alone.
 */

#include <coap3/coap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* From libcoap's internal headers. */
size_t coap_pdu_encode_header(coap_pdu_t *pdu, coap_proto_t proto);
void coap_pdu_clear(coap_pdu_t *pdu, size_t size);

enum { ROUNDS = 31, CALLS_PER_ROUND = 200000, SIZE = 128 };

static const uint8_t message[] = {
    0x44, 0x01, 0x12, 0x34, 0x01, 0x02, 0x03, 0x04,
    0x3b, 'e', 'x', 'a', 'm', 'p', 'l', 'e', '.', 'c', 'o', 'm',
    0x87, 's', 'e', 'n', 's', 'o', 'r', 's',
    0x0b, 't', 'e', 'm', 'p', 'e', 'r', 'a', 't', 'u', 'r', 'e',
    0x46, 'u', 'n', 'i', 't', '=', 'C',
    0x21, 60,
};

static coap_pdu_t *reused;
static volatile size_t sink;

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static void parse(coap_pdu_t *pdu) {
    require(coap_pdu_parse(COAP_PROTO_UDP, message, sizeof message, pdu), "parse");
}

static void visit(coap_pdu_t *pdu) {
    coap_opt_iterator_t options;
    coap_opt_t *option;
    size_t total = coap_pdu_get_token(pdu).length;
    coap_option_iterator_init(pdu, &options, COAP_OPT_ALL);
    while ((option = coap_option_next(&options)) != NULL)
        total += coap_opt_length(option) + *coap_opt_value(option);
    sink = total;
}

static void build(coap_pdu_t *pdu) {
    static const uint8_t token[] = {1, 2, 3, 4};
    uint8_t accept[4];
    require(coap_add_token(pdu, sizeof token, token), "token");
    coap_add_option(pdu, COAP_OPTION_URI_HOST, 11, (const uint8_t *)"example.com");
    coap_add_option(pdu, COAP_OPTION_URI_PATH, 7, (const uint8_t *)"sensors");
    coap_add_option(pdu, COAP_OPTION_URI_PATH, 11, (const uint8_t *)"temperature");
    coap_add_option(pdu, COAP_OPTION_URI_QUERY, 6, (const uint8_t *)"unit=C");
    coap_add_option(pdu, COAP_OPTION_ACCEPT, coap_encode_var_safe(accept, sizeof accept, 60), accept);
    sink = coap_pdu_encode_header(pdu, COAP_PROTO_UDP);
}

static coap_pdu_t *fresh(void) {
    coap_pdu_t *pdu = coap_pdu_init(COAP_MESSAGE_CON, COAP_REQUEST_CODE_GET, 0x1234, SIZE);
    require(pdu != NULL, "allocation");
    return pdu;
}

static void decode_reusing(void) {
    coap_pdu_clear(reused, SIZE);
    parse(reused);
}

static void decode_reusing_and_visit(void) {
    decode_reusing();
    visit(reused);
}

static void decode_allocating_and_visit(void) {
    coap_pdu_t *pdu = fresh();
    parse(pdu);
    visit(pdu);
    coap_delete_pdu(pdu);
}

static void encode_reusing(void) {
    coap_pdu_clear(reused, SIZE);
    coap_pdu_set_type(reused, COAP_MESSAGE_CON);
    coap_pdu_set_code(reused, COAP_REQUEST_CODE_GET);
    coap_pdu_set_mid(reused, 0x1234);
    build(reused);
}

static void encode_allocating(void) {
    coap_pdu_t *pdu = fresh();
    build(pdu);
    coap_delete_pdu(pdu);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*call)(void)) {
    double rounds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < CALLS_PER_ROUND; i++)
            call();
        clock_gettime(CLOCK_MONOTONIC, &end);
        double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        rounds[round] = seconds * 1e9 / CALLS_PER_ROUND;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], ascending);
    printf("%-44s %8.1f ns   (%.1f to %.1f)\n", name, rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
}

int main(void) {
    coap_startup();
    coap_set_log_level(LOG_ERR);
    reused = fresh();
    encode_reusing();
    require(sink == 4, "encoding the header");
    decode_reusing_and_visit();
    printf("%s, %zu bytes, 5 options, %d rounds of %d calls\n", coap_package_version(),
           sizeof message, ROUNDS, CALLS_PER_ROUND);
    measure("libcoap decode (reused PDU)", decode_reusing);
    measure("libcoap decode (reused PDU, every option)", decode_reusing_and_visit);
    measure("libcoap decode (new PDU, every option)", decode_allocating_and_visit);
    measure("libcoap encode (reused PDU)", encode_reusing);
    measure("libcoap encode (new PDU)", encode_allocating);
    coap_delete_pdu(reused);
    coap_cleanup();
    return 0;
}
