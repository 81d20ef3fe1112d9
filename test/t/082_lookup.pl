# A lost answer ends in knowledge, or in front of a person: lookups page by page, lookups that fail, objects
# that are not final, absence and when it counts, and four kinds of key store.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $double = start_provider();
my $node = new_node(name => 'lookup');
my %next = (next => { query => { starting_after => '$.data[last].id' } });
my %poll = (path => '/v1/refunds/{external_id}');

add_provider($node, 'bank', double => $double, actions => {
    refund => { lookup => {%next} },
    short  => { lookup => { %next, pages => 2, give_up => '4 s' } },
});
my @doubles = ($double);

sub refund
{
    my ($op, $action, $payment) = @_;
    return submit($node, $op, $action || 'bank.refund', { payment_intent => $payment || "pi_$op", amount => 500 });
}

sub lookups { my ($op) = @_; return attempts($node, $op, kind => 'lookup'); }

sub wait_lookup
{
    my ($op, $n, $verdict) = @_;
    return wait_sql($node, sprintf(q{SELECT count(*) >= %d FROM op_attempt WHERE op_id = %s AND kind = 'lookup' AND verdict = %s},
        $n, sql_text($op), sql_text($verdict)), "$n lookups of $op: $verdict");
}

sub verdicts { my (@attempts) = @_; return join ' ', map { $_->{verdict} } @attempts; }
sub value    { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

# Lookups of the operation get nothing until the script is cleared.
sub blind
{
    my ($payment) = @_;
    $double->script({ match => { kind => 'lookup', contains => $payment }, do => '500', times => 'always' });
    return;
}

# Seven other refunds of the same payment, so that ours is on the third page of three.
sub crowd
{
    my ($payment) = @_;
    my @others = map { "$payment-other-$_" } 1 .. 7;
    refund($_, 'bank.refund', $payment) for @others;
    wait_state($node, $_, 'confirmed') for @others;
    return;
}

subtest 'a lookup reads page after page' => sub {
    $double->config(page => 3);
    blind('pi_paged');
    $double->script({ match => { op => 'paged' }, do => 'drop' });
    refund('paged');
    wait_lookup('paged', 1, 'inconclusive');
    crowd('pi_paged');
    $double->clear_script;
    wait_state($node, 'paged', 'confirmed');
    my $last = (lookups('paged'))[-1];
    is("$last->{verdict} $last->{pages}", 'found 3', 'found on the third page');
    my @cursors = grep { /starting_after=/ } map { $_->{target} } $double->requests(kind => 'lookup');
    is(scalar @cursors, 2, 'by two cursors');
    my $body = readable($last);
    like($body, qr/pi_paged-other-7.*pi_paged-other-1.*"paged"/s, 'the bodies of all pages are kept');
    is(() = $body =~ /HTTP\/1\.1 200/g, 3, 'and their headers');
};

# The key of this provider does not guard: only proof of absence allows a resend.
subtest 'absent is what no page shows' => sub {
    my $forgetful = start_provider();
    push @doubles, $forgetful;
    $forgetful->config(stores => 'success', page => 3);
    add_provider($node, 'forgetful', double => $forgetful, spec => { key => { stores => 'success' } }, actions => { refund => { lookup => {%next} } });
    my @others = map { "pi_ghost-other-$_" } 1 .. 7;
    refund($_, 'forgetful.refund', 'pi_ghost') for @others;
    wait_state($node, $_, 'confirmed') for @others;
    # The first reading breaks off on the second page: that is no absence.
    $forgetful->script(
        { match => { op => 'ghost' }, do => 'drop_before' },
        { match => { kind => 'lookup', contains => 'starting_after' }, do => '500', times => 2 });
    refund('ghost', 'forgetful.refund', 'pi_ghost');
    wait_state($node, 'ghost', 'confirmed');
    my @lookups = lookups('ghost');
    is(join(' ', map { "$_->{verdict}/" . ($_->{pages} // 1) } @lookups[ 0, 1, -1 ]), 'inconclusive/1 inconclusive/1 absent/3', 'three pages, none is ours');
    my ($first, $second) = attempts($node, 'ghost', kind => 'send');
    is($forgetful->effects_of('ghost'), 1, 'one effect');
    my $quiet = value(sprintf q{SELECT %s::timestamptz > %s::timestamptz + interval '2.5 s'}, map { sql_text($_) } $lookups[-1]{started_at}, $first->{started_at});
    is($quiet, 't', 'sent again only after a lookup that started quiet');
};

subtest 'more pages than we read' => sub {
    $double->config(page => 3);
    blind('pi_limit');
    $double->script({ match => { op => 'limit' }, do => 'drop' });
    refund('limit', 'bank.short');
    wait_lookup('limit', 1, 'inconclusive');
    crowd('pi_limit');
    $double->clear_script;
    wait_state($node, 'limit', 'review');
    is(value(q{SELECT DISTINCT reason || pages FROM op_attempt WHERE op_id = 'limit' AND pages IS NOT NULL}), 'more_pages2', 'inconclusive, never absent');
    $double->config(page => 100);
    value(q{UPDATE op_due SET due_at = now() WHERE op_id = 'limit'});
    wait_state($node, 'limit', 'confirmed', 'a slow lookup finds it later, and ends the review');
};

subtest 'page numbers' => sub {
    my $pages = start_provider();
    push @doubles, $pages;
    $pages->script(map { {
        match => { kind => 'lookup', contains => $_ > 1 ? "page=$_&seen=" . ($_ - 1) : 'marker=counted' },
        do => { answer => { json => { items => [ { id => "thing_$_", marker => $_ == 3 ? 'counted' : 'x', kind => 'thing' } ], more => JSON::PP::true } } } } } 3, 2, 1);
    add_provider($node, 'pages', double => $pages, actions => {});
    add_action($node, 'pages.thing', 'pages', {
        args    => {}, request => { path => '/things', json => { marker => '{marker}' } },
        object  => { id => '$.id', marker => '$.marker' },
        lookup  => { path => '/things', query => { marker => '{marker}' }, items => '$.items[*]', more => '$.more == true',
                     next => { query => { page => '{page}', seen => '{seen}' } } } });
    $pages->script({ match => { kind => 'send' }, do => 'drop' });
    submit($node, 'counted', 'pages.thing', {});
    wait_state($node, 'counted', 'confirmed');
    is(value(q{SELECT external_id FROM op_operation WHERE op_id = 'counted'}), 'thing_3', 'found on the third page');
};

subtest 'a lookup that fails says nothing about the operation' => sub {
    my $html = { headers => { 'Content-Type' => 'text/html' }, body => '<html>login</html>' };
    my %answers = (
        404       => { status => 404, json => { error => { code => 'resource_missing' } } },
        401       => { status => 401 }, 403 => { status => 403 }, 429 => { status => 429, headers => { 'Retry-After' => 1 } },
        500       => { status => 500 }, html => { status => 200, %$html },
        error     => { status => 200, json => { error => { code => 'throttled' } } },
    );
    my %do = map { $_ => { answer => $answers{$_} } } keys %answers;
    $do{truncated} = { truncate => 20, then => 'close' };
    $do{timeout} = 'hang_before';
    # 429 with its Retry-After holds all lookups of a provider, so each kind has its own.
    for my $kind (sort keys %do)
    {
        add_provider($node, "fail-$kind", double => $double, actions => { refund => {} });
        $double->script({ match => { op => "fail-$kind" }, do => 'drop' },
            { match => { kind => 'lookup', contains => "pi_fail-$kind" }, do => $do{$kind}, times => 'always' });
        refund("fail-$kind", "fail-$kind.refund");
    }
    for my $kind (sort keys %do)
    {
        wait_lookup("fail-$kind", 2, 'inconclusive');
        is(state_of($node, "fail-$kind"), 'unknown', "$kind: still unknown");
    }
    my $health = value(q{SELECT string_agg(status || ' ' || substring(detail FROM 'fail-4\d\d'), ',' ORDER BY detail) FROM op_health() WHERE check_name = 'lookup'});
    $double->clear_script;
    wait_state($node, "fail-$_", 'confirmed') for sort keys %do;
    for my $kind (sort keys %do)
    {
        my @lookups = lookups("fail-$kind");
        like(verdicts(@lookups), qr/^(inconclusive ){2,}found$/, "$kind: each on record as a lookup");
        is(scalar sends_of($double, "fail-$kind"), 1, "$kind: sent once");
    }
    my $gaps = value(q{SELECT bool_and(gap > before) FROM (SELECT gap, lag(gap) OVER w AS before FROM
        (SELECT n, started_at - lag(finished_at) OVER (ORDER BY n) AS gap FROM op_attempt WHERE op_id = 'fail-500' AND kind = 'lookup') g WINDOW w AS (ORDER BY n)) h});
    is($gaps, 't', 'lookups back off');
    like($health, qr/critical fail-401/, '401 raises an alarm');
    like(slurp_file($node->logfile), qr/WARNING:  lookups of provider "fail-40[13]" are refused: http_40[13]/, 'in the log, too');
    is(value(q{SELECT count(*) FROM op_provider WHERE paused}), '0', 'and pauses nothing');
};

subtest 'accepted is not done' => sub {
    add_provider($node, 'slow', double => $double, actions => { refund => { poll => {%poll} }, listed => {}, blind => { lookup => undef, poll => {%poll} } });
    my $becomes = sub { { object => { status => 'pending' }, becomes => { after => 2, set => { status => $_[0] } } } };
    my %ops = (
        'pending, succeeds' => [ refund => 'succeeded', 'confirmed' ], 'pending, fails' => [ refund => 'failed', 'failed' ],
        'listed, succeeds' => [ listed => 'succeeded', 'confirmed' ], 'polled only' => [ blind => 'succeeded', 'confirmed' ],
        '202' => [ refund => 'succeeded', 'confirmed' ],
    );
    for my $op (sort keys %ops)
    {
        my $do = $becomes->($ops{$op}[1]);
        $do->{answer} = { status => 202 } if $op eq '202';
        $double->script({ match => { op => $op }, do => $do });
        refund($op, "slow.$ops{$op}[0]");
        wait_state($node, $op, 'accepted');
    }
    for my $op (sort keys %ops)
    {
        wait_state($node, $op, $ops{$op}[2], "$op: $ops{$op}[2]");
        is(scalar sends_of($double, $op), 1, "$op: never sent again");
        my $id = value('SELECT external_id FROM op_operation WHERE op_id = ' . sql_text($op));
        my $polled = grep { $_->{target} eq "/v1/refunds/$id" } $double->requests(kind => 'lookup');
        $op =~ /listed/ ? is($polled, 0, "$op: by the lookup") : cmp_ok($polled, '>=', 2, "$op: polled by its external id");
    }
    is(value(q{SELECT effect || ' ' || may_call_again FROM op_status('pending, fails')}), 'none true', 'what failed did not happen');
};

subtest 'a provider that cannot answer' => sub {
    add_provider($node, 'mute', double => $double, actions => { refund => { lookup => undef } });
    add_provider($node, 'deaf', double => $double, spec => { key => { ttl => '0 s', stores => 'nothing' } }, actions => { refund => { lookup => undef } });
    $double->script({ match => { op => $_ }, do => 'drop' }) for qw(mute deaf);
    refund($_, "$_.refund") for qw(mute deaf);
    wait_state($node, 'mute', 'confirmed', 'the key guards: the same request again is the question');
    is(scalar sends_of($double, 'mute'), 2, 'sent twice');
    wait_state($node, 'deaf', 'review', 'nothing guards, nobody answers: a person');
    is(value(q{SELECT reason FROM op_operation WHERE op_id = 'deaf'}), 'no_lookup', 'and why');
    is(scalar sends_of($double, 'deaf'), 1, 'sent once');
    like(value(q{SELECT detail FROM op_health() WHERE check_name = 'review'}), qr/1 wait/, 'op_health counts it');
};

# Committed, and never visible. The key does not guard.
subtest 'not found is not: did not happen' => sub {
    my $late = start_provider();
    push @doubles, $late;
    $late->config(stores => 'success');
    add_provider($node, 'late', double => $late, spec => { key => { stores => 'success' } },
        actions => { refund => { lookup => { grade => 'eventual', lag => '2 s' } } });
    $late->script({ match => { op => 'hidden' }, do => { like => 'drop', hide => 'forever' } }, { match => { op => 'shown' }, do => { like => 'drop', hide => 2 } });
    refund($_, 'late.refund') for qw(hidden shown);
    wait_state($node, $_, 'confirmed') for qw(shown hidden);
    is(scalar sends_of($late, 'shown'), 1, 'shown in time: sent once');
    my @sends = sends_of($late, 'hidden');
    is(scalar @sends, 2, 'never shown: sent again');
    is($sends[0]{key}, $sends[1]{key}, 'under the same key');
    my @misses = grep { $_->{verdict} eq 'absent' } lookups('hidden');
    cmp_ok(scalar @misses, '>=', 2, 'after several misses');
    is(value(q{SELECT bool_and(s.started_at > f.finished_at + interval '2 s') FROM op_attempt f, op_attempt s
        WHERE f.op_id = 'hidden' AND f.n = 1 AND s.op_id = f.op_id AND s.kind = 'send' AND s.n > 1}), 't', 'and not before the lag was over');
};

# The key keeps a 500.
subtest 'a stored error' => sub {
    $double->script({ match => { op => 'stored' }, do => 'stored_500' });
    refund('stored');
    wait_state($node, 'stored', 'review');
    is(verdicts(attempts($node, 'stored', kind => 'send')), 'unknown stored_error', 'the replay is recognised, and that is the end of sending');
    is(value(q{SELECT sealed FROM op_operation WHERE op_id = 'stored'}), 'evidence', 'this generation is sealed');
    is($double->effects_of('stored'), 0, 'nothing happened');
};

# The provider forgets keys; the window counts from the first send.
subtest 'sending after the key died' => sub {
    add_provider($node, 'brief', double => $double, spec => { key => { ttl => '8 s' } });
    blind('pi_dead');
    $double->script({ match => { op => 'dead' }, do => 'drop_before' });
    refund('dead', 'brief.refund');
    wait_lookup('dead', 1, 'inconclusive');
    value(q{BEGIN; SELECT 1 FROM op_operation WHERE op_id = 'dead' FOR UPDATE;
        UPDATE op_operation SET first_sent_at = first_sent_at - interval '12 s', last_sent_at = last_sent_at - interval '12 s', trying_since = trying_since - interval '12 s' WHERE op_id = 'dead';
        COMMIT});
    $double->clear_script;
    wait_state($node, 'dead', 'review');
    is(scalar sends_of($double, 'dead'), 1, 'not sent after its window');
    is((lookups('dead'))[-1]{verdict}, 'absent', 'but looked up');
};

subtest 'asked before the first send' => sub {
    add_provider($node, 'careful', double => $double, spec => { key => { ttl => '0 s', stores => 'nothing' } },
        actions => { refund => { lookup => { first => true } } });
    refund('first', 'careful.refund');
    wait_state($node, 'first', 'confirmed');
    is(join(' ', map { "$_->{kind} $_->{verdict}" } attempts($node, 'first')), 'lookup absent send confirmed', 'looked, then sent');
    # Somebody made it already, under our marker: by a program before us, or in a lost time line.
    refund('made', 'bank.refund', 'pi_made');
    wait_state($node, 'made', 'confirmed');
    $double->object(op => 'made', set => { metadata => { op_id => 'first-2' } });
    refund('first-2', 'careful.refund', 'pi_made');
    wait_state($node, 'first-2', 'confirmed');
    is(verdicts(attempts($node, 'first-2')), 'found', 'found, and not sent');
    $double->object(id => value(q{SELECT external_id FROM op_operation WHERE op_id = 'made'}), set => { metadata => { op_id => 'made' } });
};

# Lookups have places of their own, a quarter of the sends'; among those that wait for one, the key that is
# forgotten first comes first.
subtest 'lookups have a pace of their own' => sub {
    my $bank = start_provider();
    push @doubles, $bank;
    my %ttl = (long => '24 h', short => '1 h', middle => '6 h');
    add_provider($node, 'busy', double => $bank, spec => { concurrency => 4, timeout => { total => '3 s' } },
        actions => { map { $_ => { key => { ttl => $ttl{$_} } } } keys %ttl });
    $bank->script({ match => { kind => 'lookup' }, do => { delay_before => 'gate' }, times => 'always' },
        map { { match => { op => "busy-$_", kind => 'send' }, do => 'drop' } } 'first', map { ("$_-1", "$_-2") } keys %ttl);
    refund('busy-first', 'busy.short');
    $bank->wait(waiting => 1, kind => 'lookup');
    for my $n (1, 2) { refund("busy-$_-$n", "busy.$_") for qw(long middle short); }
    wait_sql($node, q{SELECT count(*) = 7 FROM op_operation WHERE op_id LIKE 'busy-%' AND state = 'unknown'}, 'seven unknown operations');
    refund('busy-plain', 'busy.long');
    wait_state($node, 'busy-plain', 'confirmed', 'a send goes out while all places of lookups are taken');
    $bank->clear_script;
    $bank->release('gate');
    wait_state($node, "busy-$_", 'confirmed') for 'first', map { ("$_-1", "$_-2") } keys %ttl;
    my @order = map { $_->{target} =~ /pi_busy-(\w+)-\d/ } $bank->requests(kind => 'lookup');
    my @short = grep { $order[$_] eq 'short' } 0 .. $#order;
    cmp_ok($short[1], '<=', 3, "the shortest window first, or the one that has waited for longest: @order");
};

# The provider's record decides, not code.
subtest 'four kinds of key store' => sub {
    my %kinds = (
        all     => [ { stores => 'all' },     { ttl => '1 h', stores => 'all' } ],
        success => [ { stores => 'success' }, { ttl => '1 h', stores => 'success' } ],
        none    => [ { stores => 'nothing' }, { ttl => '0 s', stores => 'nothing' } ],
        short   => [ { stores => 'all', ttl => 8 }, { ttl => '6 s', stores => 'all' } ],
    );
    # What becomes of it, and how often it was sent: answer lost after the effect, lost before it, 500 without effect.
    my %expected = (
        all     => { lost => 'confirmed 1', nothing => 'confirmed 2', error => 'review 2' },
        success => { lost => 'confirmed 1', nothing => 'confirmed 2', error => 'confirmed 2' },
        none    => { lost => 'confirmed 1', nothing => 'review 1', error => 'review 1' },
        short   => { lost => 'confirmed 1', nothing => 'confirmed 2', error => 'review 2' },
    );
    my %do = (lost => 'drop', nothing => 'drop_before', error => 'stored_500');
    for my $kind (sort keys %kinds)
    {
        my $bank = start_provider();
        push @doubles, $bank;
        $bank->config(%{ $kinds{$kind}[0] });
        add_provider($node, "kind-$kind", double => $bank, spec => { key => $kinds{$kind}[1] });
        for my $what (sort keys %do)
        {
            $bank->script({ match => { op => "$kind-$what" }, do => $do{$what} });
            refund("$kind-$what", "kind-$kind.refund");
        }
    }
    for my $kind (sort keys %kinds)
    {
        for my $what (sort keys %do)
        {
            my ($state) = split / /, $expected{$kind}{$what};
            wait_state($node, "$kind-$what", $state, "$kind, $what: $state");
            my $sends = scalar map { sends_of($_, "$kind-$what") } @doubles;
            is("$state $sends", $expected{$kind}{$what}, "$kind, $what: sends");
        }
    }
};

is(to_json($_->unused), '[]', 'every rule was used') for $double;
check_invariants($node, \@doubles);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash');
done_testing();
