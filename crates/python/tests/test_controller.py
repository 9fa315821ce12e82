"""Controllers without the stack."""

import carob
import pytest


def test_default_coap_doubles_its_timer_and_gives_up():
    cc = carob.Controller("default", seed=1)
    exchange = cc.begin(0.0)
    assert 2.0 <= exchange.timeout <= 3.0  # ACK_TIMEOUT to ACK_TIMEOUT * ACK_RANDOM_FACTOR
    now, timers = 0.0, [exchange.timeout]
    while (timer := cc.expired(exchange, now := now + timers[-1])) is not None:
        timers.append(timer)
    assert timers == pytest.approx([timers[0] * 2**k for k in range(5)])  # MAX_RETRANSMIT 4
    assert exchange.ended and exchange.retransmissions == 4


def test_an_adaptive_timer_follows_the_round_trips():
    cc = carob.Controller("cocoa-03")
    now = 0.0
    for _ in range(30):
        exchange = cc.begin(now)
        cc.answered(exchange, now + 0.2)
        now += 1.0
    assert 0.2 < cc.rto < 1.0
    assert cc.gauges()["rto"] == cc.rto
    assert "cocoa-03" in repr(cc)


def test_constants_and_parameters_have_units():
    cc = carob.Controller("default", ack_timeout="400 ms", ack_random_factor=1, max_retransmit=1)
    exchange = cc.begin(0.0)
    assert exchange.timeout == 0.4
    assert cc.expired(exchange, 0.4) == 0.8
    assert cc.expired(exchange, 1.2) is None
    carob.Controller("cocoa-03", constants={"k_weak": 4})


def test_wrong_use_is_named():
    with pytest.raises(carob.ControllerError, match="fasor"):
        carob.Controller("fasr")
    with pytest.raises(carob.ControllerError, match="k_weak"):
        carob.Controller("cocoa-03", constants={"k_waek": 4})
    with pytest.raises(carob.ControllerError, match="400 ms"):
        carob.Controller("default", ack_timeout="0.4")
    with pytest.raises(carob.ControllerError, match="pattern"):
        carob.Controller("all")
    cc = carob.Controller("default")
    exchange = cc.begin(0.0)
    with pytest.raises(ValueError, match="counted from 0"):
        cc.answered(exchange, 1.0, transmission=1)
    cc.answered(exchange, 1.0)
    with pytest.raises(ValueError, match="has ended"):
        cc.expired(exchange, 2.0)
    with pytest.raises(ValueError, match="seconds"):
        cc.begin(float("nan"))


def test_late_answers_and_cancelled_exchanges_are_taken():
    cc = carob.Controller("fasor")
    exchange = cc.begin(10.0)
    cc.expired(exchange, 12.0)
    cc.answered(exchange, 12.5, transmission=0)
    cc.answered(exchange, 12.9)  # late response to the retransmission
    cc.abandoned(cc.begin(13.0), 13.1)
    cc.abandoned(cc.begin(14.0), 14.1, reset=True)
    assert cc.window(15.0) >= 1
    assert cc.earliest_departure(15.0) >= 15.0


def test_times_of_parameters_are_seconds():
    ends = {"ack_random_factor": 1}
    number = carob.Controller("default", ack_timeout=0.4, **ends).begin(0.0).timeout
    assert number == carob.Controller("default", ack_timeout="400 ms", **ends).begin(0.0).timeout == 0.4


def test_the_same_seed_gives_the_same_timers():
    timers = [carob.Controller("default", seed=7).begin(0.0).timeout for _ in range(2)]
    assert timers[0] == timers[1] != carob.Controller("default", seed=8).begin(0.0).timeout


@pytest.mark.parametrize("name", list(carob.controllers()))
def test_every_controller_takes_a_loss_and_an_answer(name):
    cc = carob.Controller(name)
    now = 0.0
    for lost in (False, True, False):
        exchange = cc.begin(now)
        if lost:
            now += exchange.timeout
            assert cc.expired(exchange, now) > 0
        now += 0.1
        cc.answered(exchange, now)
    assert exchange.ended
