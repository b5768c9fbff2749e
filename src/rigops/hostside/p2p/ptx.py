"""The kernels of preflight, as PTX that the driver compiles for whatever card there is.

Written for sm_50, so that it runs on every card from Maxwell on: acquire and release are spelled
membar.sys beside volatile accesses, which newer cards take for relaxed ones of the whole system.

Word k of a pattern is x ^ (x >> 16) with x = start + k * step (words.py makes the same).
"""

from __future__ import annotations

from typing import Final

STORE: Final = "rigops_store"
LOAD: Final = "rigops_load"
PING_PONG: Final = "rigops_ping_pong"

# Store the pattern into `to`, which may be in the memory of another card.
_STORE_TEXT: Final = """\
.visible .entry rigops_store(
    .param .u64 to,
    .param .u32 words,
    .param .u32 step,
    .param .u32 start
)
{
    .reg .pred %done;
    .reg .b32 %k, %stride, %size, %words, %step, %start, %word, %high;
    .reg .b64 %to, %address;

    ld.param.u64 %to, [to];
    ld.param.u32 %words, [words];
    ld.param.u32 %step, [step];
    ld.param.u32 %start, [start];
    cvta.to.global.u64 %to, %to;

    mov.u32 %k, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %word, %tid.x;
    mad.lo.u32 %k, %k, %size, %word;
    mov.u32 %stride, %nctaid.x;
    mul.lo.u32 %stride, %stride, %size;
next:
    setp.ge.u32 %done, %k, %words;
    @%done bra end;
    mad.lo.u32 %word, %k, %step, %start;
    shr.u32 %high, %word, 16;
    xor.b32 %word, %word, %high;
    mad.wide.u32 %address, %k, 4, %to;
    st.global.u32 [%address], %word;
    add.u32 %k, %k, %stride;
    bra next;
end:
    ret;
}
"""

# Load guard words, the pattern and guard words again from `from`. The report, of 64-bit words:
# words looked at, words of the pattern that were wrong, the first of them (its number above what
# was seen, then its number above what was expected), and guard words that were wrong.
_LOAD_TEXT: Final = """\
.visible .entry rigops_load(
    .param .u64 from,
    .param .u64 report,
    .param .u32 words,
    .param .u32 step,
    .param .u32 start,
    .param .u32 guards,
    .param .u32 guard
)
{
    .reg .pred %done, %inside, %right;
    .reg .b32 %k, %stride, %size, %all, %words, %step, %start, %guards, %guard;
    .reg .b32 %at, %expected, %high, %seen, %looked;
    .reg .b64 %from, %report, %address, %place, %pair;

    ld.param.u64 %from, [from];
    ld.param.u64 %report, [report];
    ld.param.u32 %words, [words];
    ld.param.u32 %step, [step];
    ld.param.u32 %start, [start];
    ld.param.u32 %guards, [guards];
    ld.param.u32 %guard, [guard];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %report, %report;

    mov.u32 %k, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %at, %tid.x;
    mad.lo.u32 %k, %k, %size, %at;
    mov.u32 %stride, %nctaid.x;
    mul.lo.u32 %stride, %stride, %size;
    shl.b32 %all, %guards, 1;
    add.u32 %all, %all, %words;
    mov.u32 %looked, 0;
next:
    setp.ge.u32 %done, %k, %all;
    @%done bra end;
    sub.u32 %at, %k, %guards;
    setp.lt.u32 %inside, %at, %words;
    mad.lo.u32 %expected, %at, %step, %start;
    shr.u32 %high, %expected, 16;
    xor.b32 %expected, %expected, %high;
    selp.b32 %expected, %expected, %guard, %inside;
    mad.wide.u32 %address, %k, 4, %from;
    ld.volatile.global.u32 %seen, [%address];
    add.u32 %looked, %looked, 1;
    add.u32 %k, %k, %stride;
    setp.eq.u32 %right, %seen, %expected;
    @%right bra next;
    @%inside bra wrong;
    red.global.add.u64 [%report+32], 1;
    bra next;
wrong:
    red.global.add.u64 [%report+8], 1;
    cvt.u64.u32 %place, %at;
    shl.b64 %place, %place, 32;
    cvt.u64.u32 %pair, %seen;
    or.b64 %pair, %pair, %place;
    red.global.min.u64 [%report+16], %pair;
    cvt.u64.u32 %pair, %expected;
    or.b64 %pair, %pair, %place;
    red.global.min.u64 [%report+24], %pair;
    bra next;
end:
    cvt.u64.u32 %pair, %looked;
    red.global.add.u64 [%report], %pair;
    ret;
}
"""

# One thread on each of two cards. A mailbox is a flag and, 128 bytes behind it, `words` words. Each
# round, one writes words and then the flag into the outbox; the other waits for that flag in its
# inbox, reads the words, and answers. Flag and words of a round are those of no other round, and of
# no other direction; a flag is waited for at most `patience` nanoseconds. The report:
# rounds that were finished, words that were wrong, nanoseconds from the second round on, and of the
# first wrong word the round above its number in the round, then what was expected above what was
# seen.
_PING_PONG_TEXT: Final = """\
.visible .entry rigops_ping_pong(
    .param .u64 inbox,
    .param .u64 outbox,
    .param .u64 report,
    .param .u64 patience,
    .param .u32 rounds,
    .param .u32 words,
    .param .u32 step,
    .param .u32 sent,
    .param .u32 awaited,
    .param .u32 serves
)
{
    .reg .pred %serves, %over, %second, %right, %first;
    .reg .b32 %round, %rounds, %words, %step, %sent, %awaited, %flag;
    .reg .b32 %k, %number, %word, %high, %seen;
    .reg .b64 %inbox, %outbox, %report, %address, %began, %waited, %patience, %now, %wrong;
    .reg .b64 %place, %pair;

    ld.param.u64 %inbox, [inbox];
    ld.param.u64 %outbox, [outbox];
    ld.param.u64 %report, [report];
    ld.param.u64 %patience, [patience];
    ld.param.u32 %rounds, [rounds];
    ld.param.u32 %words, [words];
    ld.param.u32 %step, [step];
    ld.param.u32 %sent, [sent];
    ld.param.u32 %awaited, [awaited];
    ld.param.u32 %k, [serves];
    cvta.to.global.u64 %inbox, %inbox;
    cvta.to.global.u64 %outbox, %outbox;
    cvta.to.global.u64 %report, %report;
    setp.ne.u32 %serves, %k, 0;
    mov.u32 %round, 0;
    mov.u64 %wrong, 0;
    mov.u64 %began, %globaltimer;

round:
    add.u32 %round, %round, 1;
    setp.gt.u32 %over, %round, %rounds;
    @%over bra end;
    setp.eq.u32 %second, %round, 2;
    @%second mov.u64 %began, %globaltimer;
    @!%serves bra receive;

send:
    mov.u32 %k, 0;
    mul.lo.u32 %number, %round, %words;
next_sent:
    setp.ge.u32 %over, %k, %words;
    @%over bra all_sent;
    mad.lo.u32 %word, %number, %step, %sent;
    shr.u32 %high, %word, 16;
    xor.b32 %word, %word, %high;
    mad.wide.u32 %address, %k, 4, %outbox;
    st.global.u32 [%address+128], %word;
    add.u32 %k, %k, 1;
    add.u32 %number, %number, 1;
    bra next_sent;
all_sent:
    membar.sys;
    add.u32 %flag, %sent, %round;
    st.volatile.global.u32 [%outbox], %flag;
    @!%serves bra round;

receive:
    add.u32 %flag, %awaited, %round;
    mov.u64 %waited, %globaltimer;
spin:
    ld.volatile.global.u32 %seen, [%inbox];
    setp.eq.u32 %right, %seen, %flag;
    @%right bra arrived;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %waited;
    setp.gt.u64 %over, %now, %patience;
    @!%over bra spin;
    bra end;
arrived:
    membar.sys;
    mov.u32 %k, 0;
    mul.lo.u32 %number, %round, %words;
next_received:
    setp.ge.u32 %over, %k, %words;
    @%over bra all_received;
    mad.lo.u32 %word, %number, %step, %awaited;
    shr.u32 %high, %word, 16;
    xor.b32 %word, %word, %high;
    mad.wide.u32 %address, %k, 4, %inbox;
    ld.global.u32 %seen, [%address+128];
    setp.eq.u32 %right, %seen, %word;
    @%right bra onward;
    setp.eq.u64 %first, %wrong, 0;
    add.u64 %wrong, %wrong, 1;
    @!%first bra onward;
    cvt.u64.u32 %place, %round;
    shl.b64 %place, %place, 32;
    cvt.u64.u32 %pair, %k;
    or.b64 %place, %place, %pair;
    st.global.u64 [%report+24], %place;
    cvt.u64.u32 %place, %word;
    shl.b64 %place, %place, 32;
    cvt.u64.u32 %pair, %seen;
    or.b64 %place, %place, %pair;
    st.global.u64 [%report+32], %place;
onward:
    add.u32 %k, %k, 1;
    add.u32 %number, %number, 1;
    bra next_received;
all_received:
    @!%serves bra send;
    bra round;

end:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %began;
    sub.u32 %round, %round, 1;
    cvt.u64.u32 %place, %round;
    st.global.u64 [%report], %place;
    st.global.u64 [%report+8], %wrong;
    st.global.u64 [%report+16], %now;
    ret;
}
"""

_HEADING: Final = ".version 6.0\n.target sm_50\n.address_size 64\n"
PTX: Final = f"{_HEADING}\n{_STORE_TEXT}\n{_LOAD_TEXT}\n{_PING_PONG_TEXT}"
