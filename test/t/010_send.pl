# What does the ledger make of one send? Every way in which a request can leave, or not leave, and every
# kind of answer to it.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use MIME::Base64 qw(encode_base64);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($cert, $key) = certificate();
my $double = start_provider(cert => $cert, key => $key);
my $node = new_node(name => 'send');
add_provider($node, 'bank', double => $double, actions => { refund => {}, note => big_spec() });

# A refund that also carries a text of any size.
sub big_spec
{
    my $form = { payment_intent => '{payment_intent}', amount => '{amount}', note => '{note}', metadata => { op_id => '{marker}' } };
    return { args => { note => { type => 'text' } }, request => { form => $form } };
}

sub refund
{
    my ($op, $provider) = @_;
    return submit($node, $op, ($provider || 'bank') . '.refund', { payment_intent => "pi_$op", amount => 500 });
}

sub sends
{
    my ($op) = @_;
    return $double->requests(kind => 'send', op => $op);
}

# The object that the double made for an operation.
sub object_of
{
    my ($op) = @_;
    return (grep { ($_->{metadata}{op_id} // '') eq $op } @{ $double->effects->{objects} })[0];
}

sub external_id
{
    my ($op) = @_;
    return $node->safe_psql('postgres', 'SELECT external_id FROM op_operation WHERE op_id = ' . sql_text($op));
}

subtest 'one request, one answer' => sub {
    is(refund('plain'), 'pending', 'submitted');
    wait_state($node, 'plain', 'confirmed');

    my @seen = sends('plain');
    is(scalar @seen, 1, 'one request');
    my %header = map { lc $_->[0] => $_->[1] } @{ $seen[0]{headers} };
    is($header{authorization}, 'Bearer ' . OpLedger::SECRET, 'with the secret');
    ok(length $header{'idempotency-key'}, 'with a key');
    ok(!exists $header{expect}, 'without Expect');
    is(external_id('plain'), object_of('plain')->{id}, 'its external id is the object');

    my ($attempt) = attempts($node, 'plain');
    is("$attempt->{kind} $attempt->{verdict} $attempt->{http_status}", 'send confirmed 200', 'the attempt on record');
    cmp_ok($attempt->{bytes_sent}, '>=', length $seen[0]{body}, 'bytes sent');
    cmp_ok($attempt->{finished_at}, 'gt', $attempt->{started_at}, 'it ended after it began');
};

# The mark is committed before the first byte leaves.
subtest 'the provider looks into our database before it answers' => sub {
    my $query = sprintf q{psql -XAtq -d "%s" -c "SELECT state FROM op_operation WHERE op_id = 'observed'"}, $node->connstr('postgres');
    $double->script({ match => { op => 'observed' }, do => { run => $query } });
    refund('observed');
    wait_state($node, 'observed', 'confirmed');
    my ($request) = sends('observed');
    is($request->{run}{stdout}, "submitted\n", 'it is marked, for everybody to see');
    is($request->{run}{stderr}, '', 'and nobody was kept waiting');
};

# libcurl repeats a POST by itself when a reused connection turns out dead.
subtest 'a kept connection is reset after the effect' => sub {
    $double->script({ match => { op => 'reset-2' }, do => 'reset' });
    refund('reset-1');
    wait_state($node, 'reset-1', 'confirmed');
    refund('reset-2');
    wait_state($node, 'reset-2', 'confirmed');

    my ($first)  = sends('reset-1');
    my @second = sends('reset-2');
    is(scalar @second, 1, 'one request on the wire');
    is($second[0]{connection}, $first->{connection}, 'on the connection of the one before, else this proves nothing');
    is($double->effects_of('reset-2'), 1, 'one effect');
    my @attempts = attempts($node, 'reset-2');
    is("$attempts[0]{kind} $attempts[0]{verdict}", 'send unknown', 'sent, no answer: unknown');
    is("$attempts[-1]{kind} $attempts[-1]{verdict}", 'lookup found', 'a lookup found it');
};

# A kept connection that died while idle: nothing was sent on it, and nothing needs to be looked up.
subtest 'a kept connection was closed in between' => sub {
    refund('idle-1');
    wait_state($node, 'idle-1', 'confirmed');
    $double->hang_up;
    refund('idle-2');
    wait_state($node, 'idle-2', 'confirmed');
    my @attempts = attempts($node, 'idle-2');
    is(join(' ', map { "$_->{kind} $_->{verdict}" } @attempts), 'send confirmed', 'confirmed by the first attempt');
    is(scalar sends('idle-2'), 1, 'one request');
};

# A stray answer is never the answer to the next request.
subtest 'stray answers on a kept connection' => sub {
    my %strays = (
        'other object' => { stray => true },
        'bare'         => { stray => { json => { id => 're_evil', status => 'succeeded' } } },
        'error'        => { stray => { status => 402, json => { error => { code => 'card_declined' } } } },
    );
    my $n = 0;
    for my $kind (sort keys %strays)
    {
        my @ops = map { "stray-$n-$_" } 1 .. 3;
        $n++;
        $double->script({ match => { op => $ops[0] }, do => $strays{$kind} });
        for my $op (@ops)
        {
            refund($op);
            wait_state($node, $op, 'confirmed', "$kind: $op");
            is(external_id($op), object_of($op)->{id}, "$kind: $op has its own object");
            is(scalar sends($op), 1, "$kind: $op was sent once");
        }
    }
};

# Four timeouts, four outcomes. Two are certain that nothing left.
subtest 'timeouts' => sub {
    my $one_try = { retry => { initial => '1 min', max => '1 min' } };
    add_provider($node, 'full',   url => $double->url_of('full'), spec => $one_try);
    add_provider($node, 'silent', url => $double->url_of('silent', 'https'), spec => $one_try);
    $double->script(
        { match => { op => 'first-byte' }, do => 'hang' },
        { match => { op => 'mid-body' }, do => { truncate => 5, then => 'hang' } });

    refund('connect', 'full');
    refund('tls', 'silent');
    refund('first-byte');
    refund('mid-body');
    my %first = map { $_ => first_attempt($node, $_) } qw(connect tls first-byte mid-body);

    is($first{$_}{verdict}, 'not_sent', "$_ timeout: certainly not sent") for qw(connect tls);
    is($first{$_}{verdict}, 'unknown', "$_ timeout: unknown") for qw(first-byte mid-body);
    is($first{$_}{bytes_sent}, 0, "$_ timeout: no byte left") for qw(connect tls);
    cmp_ok($first{$_}{bytes_sent}, '>', 0, "$_ timeout: bytes left") for qw(first-byte mid-body);
    ok(defined $first{$_}{reason}, "$_ timeout: with a reason") for sort keys %first;
    is($first{'mid-body'}{http_status}, 200, 'the status of half an answer is kept');

    is(state_of($node, $_), 'pending', "$_ timeout: still pending") for qw(connect tls);
    wait_state($node, $_, 'confirmed', "$_ timeout: found by lookup") for qw(first-byte mid-body);
    is(scalar sends($_), 1, "$_ timeout: sent once") for qw(first-byte mid-body);
    $node->safe_psql('postgres', "SELECT op_cancel('$_', 'end of test')") for qw(connect tls);
};

# Failures in which no request reaches anybody.
subtest 'not sent' => sub {
    my $one_try = { retry => { initial => '1 min', max => '1 min' } };
    add_provider($node, 'refused',   url => $double->url_of('refused'), spec => $one_try);
    add_provider($node, 'untrusted', url => $double->tls_url, spec => $one_try);
    add_provider($node, 'no_secret', double => $double, secret => 'file:missing.key', spec => $one_try);
    my %verdicts = (
        refused   => qr/^not_sent$/,
        untrusted => qr/^blocked$/,
        no_secret => qr/^(not_sent|blocked)$/,
    );
    for my $provider (sort keys %verdicts)
    {
        my $op = "not-sent-$provider";
        refund($op, $provider);
        my $attempt = first_attempt($node, $op);
        like($attempt->{verdict}, $verdicts{$provider}, "$provider: $attempt->{verdict}");
        is(state_of($node, $op), 'pending', "$provider: not burnt");
        is(scalar sends($op), 0, "$provider: no request was seen");
        $node->safe_psql('postgres', "SELECT op_cancel('$op', 'end of test')");
    }
};

# With the right certificate authority the same server is fine.
subtest 'trusted TLS' => sub {
    add_provider($node, 'trusted', url => $double->tls_url, spec => { tls => { ca => $cert } });
    refund('tls-ok', 'trusted');
    wait_state($node, 'tls-ok', 'confirmed');
};

# The matrix of answers. None takes effect, and whatever may have been sent is looked up before
# it is sent again under its key, or ends as failed because the provider said no.
subtest 'answers without effect' => sub {
    my $html = { headers => { 'Content-Type' => 'text/html' }, body => '<html>Bad Gateway</html>' };
    my @rows = (
        # name, answer, verdict of the first attempt, final state
        [ 400, { status => 400, json => { error => { type => 'invalid_request_error' } } }, 'rejected', 'failed' ],
        [ 402, { status => 402, json => { error => { code => 'card_declined' } } }, 'rejected', 'failed' ],
        [ 404, { status => 404 }, 'rejected', 'failed' ],
        [ 422, { status => 422 }, 'rejected', 'failed' ],
        [ 408, { status => 408 }, 'unknown', 'confirmed' ],
        [ 409, { status => 409 }, 'unknown', 'confirmed' ],
        [ '409 in use', { status => 409, json => { error => { code => 'idempotency_key_in_use' } } }, 'in_progress', 'confirmed' ],
        [ 423, { status => 423 }, 'unknown', 'confirmed' ],
        [ 425, { status => 425 }, 'not_processed', 'confirmed' ],
        [ 429, { status => 429, headers => { 'Retry-After' => 1 } }, 'not_processed', 'confirmed' ],
        [ 500, { status => 500, json => { error => { type => 'api_error' } } }, 'unknown', 'confirmed' ],
        [ '502 html', { status => 502, %$html }, 'unknown', 'confirmed' ],
        [ 503, { status => 503 }, 'unknown', 'confirmed' ],
        [ 504, { status => 504, %$html }, 'unknown', 'confirmed' ],
        [ '200 html', { status => 200, %$html }, 'unknown', 'confirmed' ],
        [ '200 empty', { status => 200, body => '' }, 'unknown', 'confirmed' ],
        [ '200 error', { status => 200, json => { error => { code => 'throttled' } } }, 'unknown', 'confirmed' ],
        [ '204', { status => 204, body => '' }, 'unknown', 'confirmed' ],
        [ '301', { status => 301, headers => { Location => '/elsewhere' } }, 'unknown', 'confirmed' ],
        [ '400 already refunded', { status => 400, json => { error => { code => 'charge_already_refunded' } } }, 'already_done', undef ],
        [ '400 other parameters', { status => 400, json => { error => { type => 'idempotency_error' } } }, 'mismatch', 'review' ],
    );
    for my $row (@rows)
    {
        my ($name, $answer) = @$row;
        $double->script({ match => { op => "answer $name", kind => 'send' }, do => { effect => false, answer => $answer } });
        refund("answer $name");
    }
    for my $row (@rows)
    {
        my ($name, undef, $verdict, $state) = @$row;
        is(first_attempt($node, "answer $name")->{verdict}, $verdict, "$name: $verdict");
        wait_state($node, "answer $name", $state, "$name: ends $state") if defined $state;
    }
    # Evidence of an effect that no lookup ever finds: a person.
    wait_state($node, 'answer 400 already refunded', 'review', '400 already refunded: ends in review');
};

# The same answers after an effect: nothing may be called failed.
subtest 'answers after the effect' => sub {
    my @codes = (408, 409, 500, 502, 503, 504);
    $double->script({ match => { op => "done $_" }, do => { effect => true, answer => { status => $_ } } }) for @codes;
    refund("done $_") for @codes;
    wait_state($node, "done $_", 'confirmed') for @codes;
    is(scalar sends("done $_"), 1, "$_: sent once") for @codes;
};

# The connection breaks while the request is being written.
subtest 'write errors' => sub {
    my %after = ('write 0' => 0, 'write half' => 1_000_000);
    for my $op (sort keys %after)
    {
        # The body is not read, so the rule knows the operation by its number only: one after the other.
        $double->script({ match => { kind => 'send' }, do => { stop_reading => { after => $after{$op}, then => 'reset' } } });
        submit($node, $op, 'bank.note', { payment_intent => "pi_$op", amount => 1, note => 'x' x 2_000_000 });
        is(first_attempt($node, $op)->{verdict}, 'unknown', "$op: some of it left, so who knows");
        wait_state($node, $op, 'confirmed');
    }
};

# 401 is our own fault: the provider pauses, the operation is not burnt.
subtest 'a bad credential' => sub {
    add_provider($node, 'locked', double => $double);
    $double->script({ match => { op => 'locked' }, do => '401' });
    refund('locked', 'locked');
    is(first_attempt($node, 'locked')->{verdict}, 'blocked', 'blocked');
    is(state_of($node, 'locked'), 'pending', 'not burnt');
    like($node->safe_psql('postgres', q{SELECT status, detail, hint FROM op_health() WHERE check_name = 'provider'}),
        qr/critical\|provider "locked" is paused since .*http_401, seen by "locked"\|Repair/, 'op_health says so');
    like($node->safe_psql('postgres', q{SELECT op_id IS NULL, actor, note FROM op_event WHERE event = 'provider_paused' AND note LIKE 'locked:%'}),
        qr/^t\|op_ledger\|locked: http_401, seen by "locked"/, 'and it is an event');
    refund('locked-2', 'locked');
    is(scalar sends('locked-2'), 0, 'the next one is not sent');
    $node->safe_psql('postgres', q{SELECT op_provider_resume('locked')});
    wait_state($node, $_, 'confirmed') for qw(locked locked-2);
};

subtest 'redirects are never followed' => sub {
    my $elsewhere = start_provider();
    my $to        = sub { { effect => false, answer => { status => $_[0], headers => { Location => $_[1] } } } };
    my %targets   = (
        301 => $elsewhere->url . '/v1/refunds', 302 => $elsewhere->url . '/v1/refunds', 303 => 'http://[broken',
        307 => $elsewhere->url . '/v1/refunds', 308 => 'http://localhost:' . $elsewhere->port . '/',
    );
    for my $status (sort keys %targets)
    {
        my ($op, $provider, $stops) = ("redirect $status", "redirect$status", $status >= 307);
        add_provider($node, $provider, double => $double);
        $double->script({ match => { op => $op }, do => $to->($status, $targets{$status}) });
        refund($op, $provider);
        my $attempt = first_attempt($node, $op);
        is($attempt->{verdict}, $stops ? 'blocked' : 'unknown', "$status: $attempt->{verdict}");
        like(readable($attempt), qr/location/i, "$status: the Location is on record");
        $node->safe_psql('postgres', "SELECT op_provider_resume('$provider')") if $stops;
        wait_state($node, $op, 'confirmed');
    }
    is(scalar $elsewhere->connections, 0, 'nobody else was called');
};

# The outcome survives whatever the bytes are.
subtest 'hostile bodies' => sub {
    my %bodies = (
        'nul escape'     => qq({"id": "%ID%", "metadata": {"op_id": "%MARKER%"}, "x": "\\u0000"}),
        'lone surrogate' => qq({"id": "%ID%", "metadata": {"op_id": "%MARKER%"}, "x": "\\ud800"}),
        'invalid utf-8'  => qq({"id": "%ID%", "metadata": {"op_id": "%MARKER%"}, "x": "\xff\xe9"}),
        'raw nul'        => qq({"id": "%ID%", "metadata": {"op_id": "%MARKER%"}, "x": "\0"}),
        'png'            => "\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        'deep'           => '[' x 100_000,
        'huge number'    => '{"id": 1e999999}',
    );
    for my $name (sort keys %bodies)
    {
        my $headers = [ [ 'X-Odd', { base64 => encode_base64("\xff\x01", '') } ] ];
        my %answer = (body_base64 => encode_base64($bodies{$name}, ''), reason_base64 => encode_base64("O\xffK", ''), headers => $headers);
        $double->script({ match => { op => "body $name" }, do => { answer => \%answer } });
        refund("body $name");
    }
    for my $name (sort keys %bodies)
    {
        wait_state($node, "body $name", 'confirmed');
        is(scalar sends("body $name"), 1, "$name: sent once");
    }
    for my $name ('nul escape', 'lone surrogate', 'invalid utf-8')
    {
        is((attempts($node, "body $name"))[0]{verdict}, 'confirmed', "$name: confirmed by the first answer");
    }
};

subtest 'too much of an answer' => sub {
    my %answers = (
        endless   => 'endless',
        length    => { content_length => 2 << 30, then => 'hang' },
        'gzip 40' => { gzip_bomb => 40 },
        headers   => { header_lines => 5000 },
        header    => { huge_header => 400_000 },
    );
    $double->script({ match => { op => "much $_" }, do => $answers{$_} }) for keys %answers;
    refund("much $_") for sort keys %answers;
    for (sort keys %answers)
    {
        wait_state($node, "much $_", 'confirmed');
        is(scalar sends("much $_"), 1, "much $_: sent once");
    }
};

# Work that is due goes out at once, however many other providers have nothing to do; so does the lookup
# after a lost answer.
subtest 'what is due now is done now' => sub {
    add_provider($node, "idle$_", double => $double) for 1 .. 8;
    my @ops = map { "prompt-$_" } 1 .. 4;
    $double->script({ match => { op => $ops[-1] }, do => 'drop' });
    for my $op (@ops)
    {
        refund($op, 'idle8');
        wait_state($node, $op, 'confirmed');
    }
    my $late = $node->safe_psql('postgres', q{
        SELECT op_id, started_at - created_at FROM op_attempt JOIN op_operation USING (op_id)
        WHERE op_id LIKE 'prompt-%' AND n = 1 AND started_at - created_at > '0.5 s'});
    is($late, '', 'no send waited');
    my $wait = $node->safe_psql('postgres', q{
        SELECT l.started_at - s.finished_at < '0.5 s' FROM op_attempt s, op_attempt l
        WHERE s.op_id = 'prompt-4' AND l.op_id = s.op_id AND s.n = 1 AND l.n = 2});
    is($wait, 't', 'nor did the lookup');
};

is(to_json($double->unused), '[]', 'every rule was used');
check_invariants($node, $double);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash');
done_testing();
