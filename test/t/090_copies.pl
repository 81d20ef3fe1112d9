# Copies of a ledger do not send, however they were made, until a person adopts them; then
# everything that has not ended is looked up before it is sent. And pg_dump keeps it all.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use HTTP::Tiny;
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node = new_node(name => 'original', init => { allows_streaming => 'logical' }, conf => "max_worker_processes = 20\n");

# The provider does not know keys: whatever is sent twice happens twice.
$double->config(stores => 'nothing');
add_provider($node, 'bank', double => $double, spec => { key => { stores => 'nothing', margin => '500 ms' }, timeout => { flight => '500 ms' } });

my %expected = (unsent => 'pending', lost => 'unknown', done => 'confirmed', wrong => 'failed', bygone => 'cancelled', asked => 'review');

sub refund
{
    my ($op) = @_;
    return submit($node, $op, 'bank.refund', { payment_intent => "pi_$op", amount => 100 });
}

# What is in the original when it is copied: something due, something being looked up, all that has ended.
# Its worker sleeps from then on: every request that the provider sees is a copy's.
sub prepare
{
    $double->script({ match => { op => 'wrong' }, do => { answer => { status => 400, body => '{}' }, effect => false } });
    refund($_) for qw(done wrong);
    wait_state($node, 'done',  'confirmed');
    wait_state($node, 'wrong', 'failed');
    sleeps($node);
    refund($_) for qw(unsent lost bygone asked);
    $node->safe_psql('postgres', q{
        SELECT op_cancel('bygone', 'not wanted');
        UPDATE op_operation SET state = 'submitted', attempts = 1, tries = 1, trying_since = now(), first_sent_at = now(), last_sent_at = now()
         WHERE op_id IN ('lost', 'asked');
        UPDATE op_operation SET state = 'unknown', tainted = true WHERE op_id = 'lost';
        UPDATE op_operation SET state = 'review', tainted = true WHERE op_id = 'asked';
        UPDATE op_due SET step = 'lookup' WHERE op_id IN ('lost', 'asked')});
    took_effect($_) for qw(unsent lost);
    is_deeply(states($node, 'postgres'), \%expected, 'the original, asleep');
    return;
}

sub sleeps
{
    my ($cluster) = @_;
    $cluster->append_conf('postgresql.conf', 'op_ledger.enabled = off');
    $cluster->reload;
    wait_sql($cluster, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'op_ledger worker%'}, 'the workers to leave');
    hits();
    return;
}

# In the life that the copies do not know of it was sent, and worked.
sub took_effect
{
    my ($op) = @_;
    HTTP::Tiny->new->post_form($double->url . '/v1/refunds', { payment_intent => "pi_$op", amount => 100, 'metadata[op_id]' => $op });
    return;
}

# How many requests reached the provider since the last call.
my $seen = 0;
sub hits
{
    my $all = () = $double->requests;
    my $new = $all - $seen;
    $seen = $all;
    return $new;
}

sub states
{
    my ($copy, $db) = @_;
    return { split /[|\n]/, $copy->safe_psql($db, "SELECT op_id, state FROM op_operation WHERE op_id NOT LIKE 'late%' ORDER BY 1") };
}

sub home
{
    my ($copy, $db, $what) = @_;
    return $copy->safe_psql($db, "SELECT $what FROM op_health() WHERE check_name = 'home'");
}

# Its worker takes turns; op_health says why nothing happens; and nothing does.
sub is_silent
{
    my ($name, $copy, $db, $why) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok($copy->poll_query_until($db, q{SELECT turn_at > started_at FROM _op_worker()}), "$name: has a worker at work");
    is(home($copy, $db, 'status'), 'critical', "$name: op_health is alarmed");
    like(home($copy, $db, 'detail || hint'), qr/$why.*op_adopt/s, "$name: it says why, and the way out");
    $copy->safe_psql($db, qq{SELECT op_submit('late-$name', 'bank.refund', '{"payment_intent": "pi_late", "amount": 1}')});
    my $turn = $copy->safe_psql($db, 'SELECT turn_at FROM _op_worker()');
    ok($copy->poll_query_until($db, qq{SELECT turn_at > '$turn'::timestamptz + interval '1.5 s' FROM _op_worker()}), "$name: more turns");
    is(hits(), 0, "$name: nothing was sent or asked");
    is_deeply(states($copy, $db), \%expected, "$name: states as they were");
    return;
}

# Now it may send, but what the other life may have sent is looked up first.
sub is_adopted
{
    my ($name, $copy, $db) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $late = "late-$name";
    is($copy->safe_psql($db, q{SELECT string_agg(follows || ' ' || operations, ', ') FROM op_adopt('a test')}),
        'lookup 3, send 0, review 1, failed 1', "$name: adopted");
    $copy->poll_query_until($db, qq{SELECT count(*) = 3 FROM op_operation WHERE op_id IN ('unsent', 'lost', '$late') AND state = 'confirmed'});
    is_deeply(states($copy, $db), { %expected, unsent => 'confirmed', lost => 'confirmed' }, "$name: states after adoption");
    my @sent = map { $_->{op} } $double->requests(kind => 'send');
    is((grep { /^(unsent|lost)$/ } @sent), 2, "$name: what had been sent was found, not sent");
    like(steps($copy, $db, $late), qr/^(lookup:absent )+send:confirmed$/, "$name: what nobody had sent was looked up, then sent");
    is($double->effects_of($late), 1, "$name: one effect");
    is(home($copy, $db, 'status'), 'ok', "$name: op_health is content");
    return;
}

sub steps
{
    my ($copy, $db, $op) = @_;
    return $copy->safe_psql($db, "SELECT string_agg(kind || ':' || verdict, ' ' ORDER BY n) FROM op_attempt WHERE op_id = '$op'");
}

# A cluster made of the original's files.
sub start_copy
{
    my ($name, %how) = @_;
    my $copy = PostgreSQL::Test::Cluster->new($name);
    $copy->init_from_backup($node, 'base');
    $copy->append_conf('postgresql.conf', "op_ledger.enabled = on\n" . ($how{conf} || ''));
    $how{before}->($copy) if $how{before};
    hits();
    $copy->start;
    return $copy;
}

sub silent_then_adopted
{
    my ($name, $copy, $db, $why) = @_;
    is_silent($name, $copy, $db, $why);
    is_adopted($name, $copy, $db);
    return;
}

# A cluster of its own, with the library and nothing in it.
sub new_cluster
{
    my ($name) = @_;
    hits();
    return new_node(name => $name, extension => 0, init => { allows_streaming => 'logical' });
}

# Everything that a dump is to keep, as text; and what is to be where it was restored.
my $bytes = q{
    SELECT 'operation', md5(string_agg(o::text, E'\n' ORDER BY op_id)), count(*) FROM op_operation o UNION ALL
    SELECT 'request', md5(string_agg(r::text, E'\n' ORDER BY op_id, generation)), count(*) FROM op_request r UNION ALL
    SELECT 'attempt', md5(string_agg(a::text, E'\n' ORDER BY op_id, n)), count(*) FROM op_attempt a UNION ALL
    SELECT 'event', md5(string_agg(e::text, E'\n' ORDER BY id)), count(*) FROM op_event e UNION ALL
    SELECT 'provider', md5(string_agg(p::text, E'\n' ORDER BY name)), count(*) FROM op_provider p UNION ALL
    SELECT 'action', md5(string_agg(a::text, E'\n' ORDER BY name)), count(*) FROM op_action a UNION ALL
    SELECT 'profile', md5(string_agg(p::text, E'\n' ORDER BY name)), count(*) FROM op_profile p};

prepare();
hits();
my $dir = PostgreSQL::Test::Utils::tempdir('dumps');
$node->backup('base');
$node->command_ok(['pg_dump', '-Fc', '-f', "$dir/custom", 'postgres'], 'pg_dump -Fc');
$node->command_ok(['pg_dump', '-Fp', '-f', "$dir/plain", 'postgres'], 'pg_dump -Fp');
$node->command_ok(['pg_dump', '-Fd', '-j2', '-f', "$dir/directory", 'postgres'], 'pg_dump -Fd -j2');
$node->command_ok(['pg_dump', '--schema-only', '-f', "$dir/schema", 'postgres'], 'pg_dump --schema-only');
$node->command_ok(['pg_dumpall', '-f', "$dir/all"], 'pg_dumpall');

subtest 'pg_dump keeps rows and bytes' => sub {
    my $wanted = $node->safe_psql('postgres', $bytes);
    $node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") for qw(custom plain directory schema);
    $node->command_ok(['pg_restore', '--exit-on-error', '-d', 'custom', "$dir/custom"], 'pg_restore -Fc');
    $node->command_ok(['psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-d', 'plain', '-o', '/dev/null', '-f', "$dir/plain"], 'psql < plain');
    $node->command_ok(['pg_restore', '--exit-on-error', '-j2', '-d', 'directory', "$dir/directory"], 'pg_restore -Fd -j2');
    $node->command_ok(['psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-d', 'schema', '-o', '/dev/null', '-f', "$dir/schema"], 'psql < schema only');
    my $all = new_cluster('dumpall');
    # Roles and databases that are there already are no fault of the dump.
    $all->command_ok(['psql', '-qX', '-d', 'template1', '-o', '/dev/null', '-f', "$dir/all"], 'psql < pg_dumpall');
    for ([ $node, 'custom' ], [ $node, 'plain' ], [ $node, 'directory' ], [ $all, 'postgres' ])
    {
        my ($cluster, $db) = @$_;
        is($cluster->safe_psql($db, $bytes), $wanted, "$db: rows and bytes equal, no seed row twice");
        is($cluster->safe_psql($db, 'SELECT count(*) FROM op_due'), '0', "$db: no agenda");
        is($cluster->safe_psql($db, 'SELECT count(*), count(DISTINCT system_identifier || database_oid::text || extension_oid) FROM op_control'),
            '2|2', "$db: the original's home and its own");
        is($cluster->safe_psql($db, 'SELECT nextval($$op_event_id_seq$$) > max(id) FROM op_event'), 't', "$db: the sequence goes on");
    }
    is($node->safe_psql('schema', 'SELECT (SELECT count(*) FROM op_operation), (SELECT count(*) FROM op_control), (SELECT count(*) > 0 FROM op_profile)'),
        '0|1|t', 'schema only: an empty ledger of its own, with its profiles');
    is(home($node, 'schema', 'status'), 'ok', 'schema only: at home');
    $all->stop;
    $node->safe_psql('postgres', "DROP DATABASE $_") for qw(plain directory schema);
    is(hits(), 0, 'restoring sends nothing');
};

subtest 'a dump in another cluster (78 a)' => sub {
    my $other = new_cluster('other');
    $other->command_ok(['pg_restore', '--exit-on-error', '-d', 'postgres', "$dir/custom"], 'restored');
    silent_then_adopted('dump', $other, 'postgres', 'came from elsewhere');
    # In place: the extension goes, and its data with it; the dump comes again.
    $other->safe_psql('postgres', 'DROP EXTENSION op_ledger; CREATE EXTENSION op_ledger');
    is(home($other, 'postgres', 'status'), 'ok', 'created anew: an empty ledger is at home');
    $other->safe_psql('postgres', 'DROP EXTENSION op_ledger');
    hits();
    $other->command_ok(['pg_restore', '--exit-on-error', '-d', 'postgres', "$dir/custom"], 'restored again, in the same database');
    silent_then_adopted('again', $other, 'postgres', 'came from elsewhere');
    $other->stop;
};

subtest 'in the same cluster: a dump, and CREATE DATABASE … TEMPLATE (78 b)' => sub {
    $node->safe_psql('postgres', 'CREATE DATABASE staging TEMPLATE postgres', connstr => $node->connstr('template1'));
    for ([ template => 'staging' ], [ restored => 'custom' ])
    {
        my ($name, $db) = @$_;
        hits();
        $node->append_conf('postgresql.conf', "op_ledger.enabled = on\nop_ledger.databases = '$db'");
        $node->reload;
        silent_then_adopted($name, $node, $db, 'came from elsewhere');
        sleeps($node);
    }
};

subtest 'a base backup started elsewhere, without a signal file (78 c)' => sub {
    # What op_ledger.failover lets go on is a promotion, not a copy.
    my $copy = start_copy('files', conf => "op_ledger.failover = continue\n");
    silent_then_adopted('files', $copy, 'postgres', 'are a copy');
    # Home is where it was adopted, also after a restart and a crash.
    $copy->restart;
    is(home($copy, 'postgres', 'status'), 'ok', 'after a restart');
    $copy->stop('immediate');
    $copy->start;
    is(home($copy, 'postgres', 'status'), 'ok', 'after a crash');
    $copy->stop;
};

subtest 'recovery to a point in time (78 d)' => sub {
    my $copy = start_copy('pitr', conf => "restore_command = 'false'\nrecovery_target = 'immediate'\nrecovery_target_action = 'promote'\n",
        before => sub { PostgreSQL::Test::Utils::append_to_file($_[0]->data_dir . '/recovery.signal', '') });
    $copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
    silent_then_adopted('pitr', $copy, 'postgres', 'recovered to a point in time');
    $copy->stop;
};

# pg_upgrade makes a new cluster, with another identifier, of the old one's files.
sub other_identifier
{
    my ($copy) = @_;
    open my $fh, '+<:raw', $copy->data_dir . '/global/pg_control' or die $!;
    read $fh, my $old, 8;
    seek $fh, 0, 0;
    print $fh pack 'Q', unpack('Q', $old) + 4711;
    close $fh;
    PostgreSQL::Test::Utils::system_or_bail('pg_resetwal', '-f', '-D', $copy->data_dir);
    unlink $copy->data_dir . '/backup_label';
    return;
}

subtest 'another system identifier, as after pg_upgrade' => sub {
    my $copy = start_copy('upgraded', before => \&other_identifier);
    silent_then_adopted('upgraded', $copy, 'postgres', 'came from elsewhere');
    $copy->stop;
};

subtest 'a logical subscriber (78 e)' => sub {
    my $subscriber = new_cluster('subscriber');
    $subscriber->safe_psql('postgres', 'CREATE EXTENSION op_ledger');
    $node->safe_psql('postgres', q{
        CREATE PUBLICATION ledger FOR TABLE op_operation, op_request, op_attempt, op_event, op_provider, op_action, op_control, op_due, op_nudge;
        INSERT INTO op_nudge VALUES ('lost', now());
        DELETE FROM op_nudge});
    $subscriber->safe_psql('postgres', sprintf q{CREATE SUBSCRIPTION ledger CONNECTION %s PUBLICATION ledger}, sql_text($node->connstr('postgres')));
    $subscriber->wait_for_subscription_sync($node, 'ledger');
    $node->safe_psql('postgres', q{UPDATE op_due SET due_at = due_at - interval '1 h'});
    $node->wait_for_catchup('ledger');
    is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM op_due'), 0, 'the agenda stays where it was');
    is_silent('subscriber', $subscriber, 'postgres', 'came from elsewhere');
    $subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION ledger');
    is_adopted('subscriber', $subscriber, 'postgres');
    $subscriber->stop;
};

is_deeply(states($node, 'postgres'), \%expected, 'the original did nothing meanwhile');
$node->stop;
done_testing();
