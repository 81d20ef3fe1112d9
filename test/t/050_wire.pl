# The wire between the worker and providers: who may send how much and when, over which connections, to
# whom, and how much of an answer is read.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use OpLedger::Authority;
use POSIX qw(strftime);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();

# Whoever started the server has a proxy in his environment; it is not meant for us.
my $proxy = start_provider();
my $node = do {
    local @ENV{qw(http_proxy https_proxy ALL_PROXY all_proxy)} = ($proxy->url) x 4;
    new_node(name => 'wire');
};
watch_states($node);
my @doubles = ($double);

sub refund
{
    my ($op, $provider) = @_;
    return submit($node, $op, "$provider.refund", { payment_intent => "pi_$op", amount => 500 });
}

sub query { return $node->safe_psql('postgres', $_[0]); }

# What waits for its turn is not on the wire, so its timer does not run.
subtest 'a thousand at once, twenty at a time' => sub {
    my ($n, $places) = (1000, 20);
    add_provider($node, 'crowd', double => $double, spec => { concurrency => $places, timeout => { total => '1 s' } });
    $double->script({ match => { contains => 'crowd-' }, do => { delay_answer => 0.1 }, times => 'always' });
    query(q{
        CREATE FUNCTION most_submitted() RETURNS int LANGUAGE plpgsql AS $$
        DECLARE most int := 0;
        BEGIN
            FOR i IN 1 .. 3000 LOOP
                most := greatest(most, (SELECT count(*) FROM op_operation WHERE state = 'submitted'));
                EXIT WHEN NOT EXISTS (SELECT FROM op_operation WHERE state IN ('pending', 'submitted'));
                PERFORM pg_sleep(0.01);
            END LOOP;
            RETURN most;
        END $$});
    submit_many($node, 'crowd', 'crowd.refund', $n);
    my $most = query('SELECT most_submitted()');

    all_ended($node, 'crowd-', 'confirmed', $n);
    cmp_ok($most, '<=', $places, "at most $places were marked at any time");
    cmp_ok($most, '>', $places / 2, 'and the places were used');
    is(query(q{SELECT count(*) FROM seen WHERE op_id LIKE 'crowd-%' AND state = 'unknown'}), 0, 'none was ever unknown');
    is(query(q{SELECT count(*) FROM op_attempt WHERE op_id LIKE 'crowd-%'}), $n, 'one attempt each');
    cmp_ok(query(q{SELECT extract(epoch FROM max(settled_at) - min(created_at)) FROM op_operation WHERE op_id LIKE 'crowd-%'}),
        '<', 3 * $n / $places * 0.1, 'without pauses in between');
    cmp_ok(scalar $double->connections, '<=', 2 * $places, 'over kept connections');
};

subtest 'a slow provider does not hold back a fast one' => sub {
    add_provider($node, 'slow', double => $double, spec => { concurrency => 8 });
    add_provider($node, 'fast', double => $double);
    $double->script(
        { match => { contains => 'slow-', kind => 'send' }, do => { like => 'drop', delay_after => 0.7 }, times => 'always' },
        { match => { contains => 'slow-' }, do => { delay_answer => 0.7 }, times => 'always' });
    submit_many($node, 'slow', 'slow.refund', 20);
    refund("fast-$_", 'fast') for 1 .. 20;
    all_ended($node, 'fast-', 'confirmed', 20);
    cmp_ok(query(q{
        SELECT extract(epoch FROM percentile_disc(0.95) WITHIN GROUP (ORDER BY settled_at - created_at))
        FROM op_operation WHERE op_id LIKE 'fast-%'}), '<', 0.5, 'each at once');
    cmp_ok(query(q{SELECT count(*) FROM op_operation WHERE op_id LIKE 'slow-%' AND state = 'confirmed'}), '<', 20, 'while the slow one was at it');
    all_ended($node, 'slow-', 'confirmed', 20);
};

# Providers that have nothing to do take nobody's turn.
subtest 'idle providers cost no time' => sub {
    add_provider($node, "idle$_", double => $double) for 1 .. 8;
    refund("among-$_", 'fast') for 1 .. 5;
    all_ended($node, 'among-', 'confirmed', 5);
    cmp_ok(query(q{SELECT extract(epoch FROM max(settled_at - created_at)) FROM op_operation WHERE op_id LIKE 'among-%'}),
        '<', 0.5, 'among eight idle providers');
    $double->script({ match => { op => 'lost-among' }, do => 'drop' });
    refund('lost-among', 'fast');
    wait_state($node, 'lost-among', 'confirmed');
    my ($send, $lookup) = attempts($node, 'lost-among');
    cmp_ok(query("SELECT extract(epoch FROM timestamptz '$lookup->{started_at}' - '$send->{finished_at}')"), '<', 0.5, 'the lookup follows at once');
};

# What a lookup does not see yet may be there all the same. The key of this provider does not
# guard, so nothing is sent again before absence is proved.
subtest 'not found is not absent' => sub {
    $double->config(stores => 'nothing');
    add_provider($node, 'hidden', double => $double, spec => { key => { stores => 'nothing' } },
        actions => { refund => { lookup => { lag => '6 s', grade => 'eventual' } } });
    $double->script({ match => { op => 'hidden' }, do => { like => 'drop', hide => 2 } });
    refund('hidden', 'hidden');
    wait_state($node, 'hidden', 'confirmed');
    is(states_seen($node, 'hidden'), 'pending submitted unknown confirmed', 'it was unknown all the time');
    my @lookups = map { $_->{verdict} } attempts($node, 'hidden', kind => 'lookup');
    is(pop @lookups, 'found', 'the last lookup found it');
    cmp_ok(scalar @lookups, '>=', 2, 'early ones did not');
    is(join(' ', grep { $_ ne 'absent' } @lookups), '', 'and were believed in nothing');
    is(scalar sends_of($double, 'hidden'), 1, 'sent once');
    $double->config(stores => 'all');
};

subtest 'the key is in use until the first request ends' => sub {
    add_provider($node, 'busy', double => $double, spec => { timeout => { total => '1 s' }, retry => { attempts => 2 } });
    $double->script({ match => { op => 'busy', kind => 'send', nth => 1 }, do => { delay_before => 3 } });
    refund('busy', 'busy');
    wait_state($node, 'busy', 'confirmed');
    my @verdicts = map { $_->{verdict} } attempts($node, 'busy', kind => 'send');
    is(shift @verdicts, 'unknown', 'the first send ran out of time');
    is(pop @verdicts, 'confirmed', 'the last one got its answer');
    cmp_ok(scalar @verdicts, '>=', 2, 'in between the key was in use, more often than there are tries');
    is(join(' ', grep { $_ ne 'in_progress' } @verdicts), '', 'and nothing else happened');
    is($double->effects_of('busy'), 1, 'one effect');
    is(states_seen($node, 'busy') =~ s/(submitted unknown ?)+//r, 'pending submitted confirmed', 'never failed, never pending again');
};

subtest 'Retry-After' => sub {
    my $seconds = { effect => false, answer => { status => 429, headers => { 'Retry-After' => '1' } } };
    add_provider($node, $_, double => $double, spec => { retry => { attempts => 2 } }) for qw(limit dated);

    $double->script({ match => { op => 'limited' }, do => $seconds, times => 3 });
    refund('limited', 'limit');
    ok($double->wait(finished => 1, op => 'limited'), 'the provider says 429');
    wait_sql($node, q{SELECT count(*) = 1 FROM op_attempt WHERE op_id = 'limited'}, 'the first attempt');
    refund('limited-too', 'limit');
    wait_state($node, $_, 'confirmed') for qw(limited limited-too);
    my @attempts = attempts($node, 'limited');
    is(join(' ', map { $_->{verdict} } @attempts), 'not_processed not_processed not_processed confirmed', 'more often than there are tries');
    is(query(q{SELECT tries FROM op_operation WHERE op_id = 'limited'}), 1, 'they used up none');
    is(query(q{
        SELECT count(*) FROM op_attempt a JOIN op_attempt b ON b.op_id = a.op_id AND b.n = a.n + 1
        WHERE a.op_id = 'limited' AND b.started_at - a.finished_at NOT BETWEEN interval '1 s' AND interval '2.5 s'}), 0,
        'each after a second, and soon then');
    my ($other) = attempts($node, 'limited-too');
    is(query("SELECT timestamptz '$other->{started_at}' >= timestamptz '$attempts[0]{finished_at}' + interval '1 s'"), 't',
        'others of this provider wait, too');

    my $date = strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime(time + 3));
    $double->script({ match => { op => 'dated' }, do => { effect => false, answer => { status => 429, headers => { 'Retry-After' => $date } } } });
    refund('dated', 'dated');
    wait_state($node, 'dated', 'confirmed');
    cmp_ok(query(sprintf q{SELECT started_at - %s::timestamptz FROM op_attempt WHERE op_id = 'dated' AND n = 2}, sql_text($date)),
        'ge', '-00:00:01', 'a date is heeded, but for the fraction of a second');
};

# ---------------------------------------------------------------------------------------------
# TLS
# ---------------------------------------------------------------------------------------------

my $authority = OpLedger::Authority->new('the right one');
my $impostor  = OpLedger::Authority->new('another one');

sub start_tls
{
    my ($name, $by, %certificate) = @_;
    my $server = start_provider($by->sign(%certificate));
    push @doubles, $server;
    add_provider($node, $name, url => $server->tls_url, spec => { tls => { ca => $authority->file } });
    return $server;
}

subtest 'a certificate of the CA that the provider names' => sub {
    my $server = start_tls('trusted', $authority, names => 'IP:127.0.0.1');
    refund("trusted-$_", 'trusted') for 1 .. 3;
    all_ended($node, 'trusted-', 'confirmed', 3);
    my %header = map { lc $_->[0] => $_->[1] } @{ (sends_of($server, 'trusted-1'))[0]{headers} };
    is($header{authorization}, 'Bearer ' . OpLedger::SECRET, 'it is given the secret');
};

my %untrusted = (
    stranger => [ $impostor,  names => 'IP:127.0.0.1' ],
    misnamed => [ $authority, names => 'DNS:elsewhere.example,IP:127.0.0.2' ],
    expired  => [ $authority, names => 'IP:127.0.0.1', expired => 1 ],
);
for my $name (sort keys %untrusted)
{
    subtest "not trusted: $name" => sub {
        my $server = start_tls($name, @{ $untrusted{$name} });
        refund("to-$name", $name);
        my $attempt = first_attempt($node, "to-$name");
        is("$attempt->{verdict} $attempt->{reason}", 'blocked certificate', 'blocked');
        is($attempt->{bytes_sent}, 0, 'no byte of the request left');
        like($attempt->{error}, qr/certificate|host name|target host/i, "said: $attempt->{error}");
        is(state_of($node, "to-$name"), 'pending', 'the operation is not burnt');
        is(query("SELECT paused FROM op_provider WHERE name = '$name'"), 't', 'the provider is paused');
        like(query(q{SELECT string_agg(detail, E'\n') FROM op_health() WHERE status = 'critical'}), qr/"$name" is paused/, 'op_health says so');
        is(scalar $server->requests, 0, 'the server saw no request');
    };
}

subtest 'the CA is put right' => sub {
    query(sprintf q{
        UPDATE op_provider SET spec = jsonb_set(spec, '{tls,ca}', to_jsonb(%s::text)) WHERE name = 'stranger';
        SELECT op_provider_resume('stranger')}, sql_text($impostor->file));
    wait_state($node, 'to-stranger', 'confirmed');
};

subtest 'no TLS at all where it should be' => sub {
    add_provider($node, 'plain', url => 'https://127.0.0.1:' . $double->port, spec => { retry => { initial => '1 min', max => '1 min' } });
    refund('to-plain', 'plain');
    my $attempt = first_attempt($node, 'to-plain');
    is("$attempt->{verdict} $attempt->{bytes_sent}", 'not_sent 0', 'not sent');
    is(state_of($node, 'to-plain'), 'pending', 'and tried again later');
    query(q{SELECT op_cancel('to-plain')});
};

# ---------------------------------------------------------------------------------------------
# Too much of an answer
# ---------------------------------------------------------------------------------------------

subtest 'the memory of the worker does not grow with answers' => sub {
    add_provider($node, 'flood', double => $double, spec => { concurrency => 4, timeout => { total => '5 s' } });
    my %floods = (
        endless => 'endless',
        length  => { content_length => 2 << 30, then => 'close' },
        gzip    => { gzip_bomb => 20 },
        lines   => { header_lines => 5000 },
        header  => { huge_header => 400_000 },
    );
    my $flood = sub {
        my ($from, $to) = @_;
        for my $i ($from .. $to)
        {
            $double->script(map { { match => { kind => 'send', op => "flood-$_-$i" }, do => $floods{$_} } } keys %floods);
            refund("flood-$_-$i", 'flood') for keys %floods;
        }
        all_ended($node, 'flood-', 'confirmed', $to * keys %floods);
    };
    my $worker = worker_pid($node);
    $flood->(1, 2);
    my $before = status_kb($worker, 'VmHWM');
    $flood->(3, 8);
    is(worker_pid($node), $worker, 'it is the same worker');
    cmp_ok(status_kb($worker, 'VmHWM') - $before, '<', 8 * 1024, 'six times as many answers take no more memory at a time');
    is(query(q{SELECT count(*) FROM op_attempt WHERE op_id LIKE 'flood-%' AND kind = 'send'}), 8 * keys %floods, 'sent once each');
    cmp_ok(query(q{SELECT max(length(response_body)) FROM op_attempt}), '<=', 1 << 20, 'bodies are kept to the limit');
    cmp_ok(query(q{SELECT max(length(response_headers)) FROM op_attempt}), '<=', 64 << 10, 'so are headers');
};

is(scalar $proxy->connections, 0, 'nobody asked the proxy of the environment');
check_invariants($node, \@doubles);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash');
done_testing();
