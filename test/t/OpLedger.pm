# What every TAP test of op_ledger needs: a server with the extension, a provider double to talk to,
# and the four invariants that hold after each story (check_invariants).
#
# Everything started here listens on a free port of 127.0.0.1 and is ended by its process id when the
# test ends, also when it dies.
package OpLedger;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use JSON::PP ();
use OpLedger::Server;
use POSIX ();
use Time::HiRes ();

our @EXPORT = qw(
  new_node start_provider start_proxy start_stripe_mock certificate
  add_provider add_action refund_spec submit state_of wait_state wait_sql attempts first_attempt readable
  stop_command crashed worker_pid restart_immediately check_invariants sql_text to_json from_json true false
);

# Before PostgreSQL::Test is loaded: it wants the binaries in PATH and pg_regress in the environment,
# and 180 s is long for a test whose slowest step takes five.
BEGIN
{
    chomp(my $bindir = `pg_config --bindir`);
    chomp(my $pgxs   = `pg_config --pgxs`);
    $ENV{PATH} = "$bindir:$ENV{PATH}" unless grep { $_ eq $bindir } split /:/, $ENV{PATH};
    $ENV{PG_REGRESS} ||= dirname($pgxs) . '/../test/regress/pg_regress';
    $ENV{PG_TEST_TIMEOUT_DEFAULT} ||= 60;
}

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tools = dirname(__FILE__) . '/../provider';
my $json  = JSON::PP->new->utf8->canonical->allow_nonref;

use constant SECRET => 'sk_test_not_a_real_secret';

sub true  { return JSON::PP::true; }
sub false { return JSON::PP::false; }
sub to_json   { return $json->encode($_[0]); }
sub from_json { return $json->decode($_[0]); }

# A string as an SQL literal.
sub sql_text
{
    my ($text) = @_;
    return 'NULL' unless defined $text;
    $text =~ s/'/''/g;
    $text =~ s/\\/\\\\/g;
    return " E'$text'";
}

# ---------------------------------------------------------------------------------------------
# The server under test
# ---------------------------------------------------------------------------------------------

# new_node(name => 'main', conf => "...", secrets => {file => text}, extension => 0, init => {...})
sub new_node
{
    my (%opts) = @_;
    my $node = PostgreSQL::Test::Cluster->new($opts{name} || 'main');
    my $dir = _secret_dir('test.key' => SECRET, %{ $opts{secrets} || {} });

    $node->init(extra => [ '--encoding=UTF8', '--no-locale' ], %{ $opts{init} || {} });
    $node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'op_ledger'
op_ledger.secret_dir = '$dir'
restart_after_crash = on
log_statement = none
log_min_messages = info
} . ($opts{conf} || ''));
    $node->start;
    $node->safe_psql('postgres', 'CREATE EXTENSION op_ledger')
      if !exists $opts{extension} || $opts{extension};
    return $node;
}

sub _secret_dir
{
    my (%files) = @_;
    my $dir = PostgreSQL::Test::Utils::tempdir('secrets');
    $dir = POSIX::getcwd() . "/$dir" unless $dir =~ m{^/};
    chmod 0700, $dir;
    while (my ($name, $text) = each %files)
    {
        open my $fh, '>', "$dir/$name" or die "$dir/$name: $!";
        print $fh "$text\n";
        close $fh;
        chmod 0600, "$dir/$name";
    }
    return $dir;
}

# A shell command that stops the server at once: for the double, in the middle of an exchange.
sub stop_command
{
    my ($node) = @_;
    return sprintf "pg_ctl -D '%s' -m immediate -w stop >/dev/null", $node->data_dir;
}

# Somebody else ended the server; let the node object know.
sub crashed
{
    my ($node) = @_;
    $node->_update_pid(-1);
    return;
}

sub restart_immediately
{
    my ($node) = @_;
    $node->stop('immediate');
    $node->start;
    return;
}

# The worker of a database, once it is there.
sub worker_pid
{
    my ($node, %opts) = @_;
    my $db   = $opts{database} || 'postgres';
    my $not  = $opts{not} || 0;
    my $find = "FROM pg_stat_activity WHERE backend_type LIKE 'op_ledger%' AND datname = '$db' AND pid <> $not";
    wait_sql($node, "SELECT count(*) = 1 $find", 'a worker for ' . $db);
    return $node->safe_psql('postgres', "SELECT pid $find");
}

# ---------------------------------------------------------------------------------------------
# Providers in the ledger
# ---------------------------------------------------------------------------------------------

# Short times, so that "nothing sent can still arise" is known after seconds.
my %fast = (
    auth    => { scheme => 'bearer' },
    timeout => { connect => '1 s', total => '2 s', flight => '2 s' },
    retry   => { attempts => 3, patience => '2 min', initial => '200 ms', base => 2, max => '1 s', jitter => 0 },
    key     => {
        in     => 'header', name => 'Idempotency-Key', format => 'raw', ttl => '1 h', margin => '1 s',
        stores => 'all', replayed => 'header:Idempotent-Replayed'
    },
);

# The refund of the double: `by` names the argument that it is looked up with.
sub refund_spec
{
    my (%over) = @_;
    my $by = delete $over{by} || 'payment_intent';
    my %spec = (
        effect  => 'create',
        args    => { $by => { type => 'text' }, amount => { type => 'integer', min => 1 } },
        request => {
            method => 'POST', path => '/v1/refunds',
            form   => { $by => "{$by}", amount => '{amount}', metadata => { op_id => '{marker}' } }
        },
        object => {
            id      => '$.id', marker => '$.metadata.op_id',
            pending => '$.status == "pending"',
            failed  => '$.status == "failed" || $.status == "canceled"'
        },
        rules => [
            { if => { status => 409, body => '$.error.code == "idempotency_key_in_use"' }, then => 'in_progress', reason => 'key_in_use' },
            { if => { status => 400, body => '$.error.type == "idempotency_error"' }, then => 'mismatch', reason => 'idempotency_error' },
            { if => { status => 400, body => '$.error.code == "charge_already_refunded"' }, then => 'already_done' },
        ],
        lookup => {
            path  => '/v1/refunds', query => { $by => "{$by}", limit => 100 },
            items => '$.data[*]', more => '$.has_more == true',
            grade => 'strong', lag => '0 s', give_up => '1 h'
        },
    );
    return _merged(\%spec, \%over);
}

# add_provider($node, 'bank', double => $p | url => '...', spec => {...}, actions => {refund => {...}})
# creates the provider and, unless told otherwise, the action 'bank.refund'. An undefined value in
# spec or action takes the field away.
sub add_provider
{
    my ($node, $name, %opts) = @_;
    my $url     = $opts{url} || $opts{double}->url;
    my $spec    = _merged(\%fast, $opts{spec} || {});
    my $secret  = exists $opts{secret} ? $opts{secret} : 'file:test.key';
    my $actions = $opts{actions} || { refund => {} };

    $node->safe_psql('postgres', sprintf 'SELECT op_provider_add(%s, profile => %s, base_url => %s, secret => %s, spec => %s::jsonb)',
        map { sql_text($_) } $name, $opts{profile} || 'http', $url, $secret, to_json($spec));
    add_action($node, "$name.$_", $name, refund_spec(%{ $actions->{$_} })) for sort keys %$actions;
    return;
}

sub add_action
{
    my ($node, $action, $provider, $spec) = @_;
    $node->safe_psql('postgres', sprintf 'SELECT op_action_add(%s, %s, %s::jsonb)', map { sql_text($_) } $action, $provider, to_json($spec));
    return;
}

sub _merged
{
    my ($base, $over) = @_;
    my %result = %$base;
    while (my ($name, $value) = each %$over)
    {
        if (!defined $value) { delete $result{$name}; }
        elsif (ref $value eq 'HASH' && ref $result{$name} eq 'HASH') { $result{$name} = _merged($result{$name}, $value); }
        else { $result{$name} = $value; }
    }
    return \%result;
}

# ---------------------------------------------------------------------------------------------
# Operations
# ---------------------------------------------------------------------------------------------

# Returns the state that op_submit answered.
sub submit
{
    my ($node, $op, $action, $args) = @_;
    return $node->safe_psql('postgres', sprintf 'SELECT state FROM op_submit(%s, %s, %s::jsonb)', map { sql_text($_) } $op, $action, to_json($args));
}

sub state_of
{
    my ($node, $op) = @_;
    return $node->safe_psql('postgres', 'SELECT state FROM op_status(' . sql_text($op) . ')');
}

# Rows of op_attempt as hashes, oldest first; attempts($node, $op, kind => 'send')
sub attempts
{
    my ($node, $op, %where) = @_;
    my $and  = join '', map { " AND $_ = " . sql_text($where{$_}) } sort keys %where;
    my $rows = $node->safe_psql('postgres',
        "SELECT coalesce(json_agg(to_jsonb(a) ORDER BY a.n), '[]') FROM op_attempt a WHERE op_id = " . sql_text($op) . $and);
    return @{ from_json($rows) };
}

# An attempt as one text, bytea columns decoded: for `like`.
sub readable
{
    my ($attempt) = @_;
    my %copy = %$attempt;
    for my $value (grep { defined && !ref } values %copy)
    {
        $value = pack 'H*', $1 if $value =~ /^\\x((?:[0-9a-f]{2})*)$/;
    }
    return join "\n", map { "$_: " . (ref $copy{$_} ? to_json($copy{$_}) : $copy{$_} // '') } sort keys %copy;
}

sub first_attempt
{
    my ($node, $op) = @_;
    wait_sql($node, 'SELECT EXISTS (SELECT FROM op_attempt WHERE op_id = ' . sql_text($op) . ')', "an attempt of $op") or return {};
    return (attempts($node, $op))[0];
}

sub wait_sql
{
    my ($node, $query, $what) = @_;
    return 1 if $node->poll_query_until('postgres', $query);
    diag("gave up waiting for $what");
    return 0;
}

# One test: the operation reaches the state. An end that is not the wanted one is not waited out.
sub wait_state
{
    my ($node, $op, $wanted, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $id = sql_text($op);
    wait_sql($node, "SELECT state IN ('$wanted', 'confirmed', 'failed', 'cancelled') FROM op_operation WHERE op_id = $id", "$op to be $wanted");
    my $state = $node->safe_psql('postgres', "SELECT state FROM op_operation WHERE op_id = $id");
    my $good = is($state, $wanted, $name || "$op is $wanted");
    _show($node, $op) unless $good;
    return $good;
}

sub _show
{
    my ($node, $op) = @_;
    my ($rc, $out, $err) = $node->psql('postgres', 'SELECT * FROM op_timeline(' . sql_text($op) . ')');
    diag("timeline of $op:\n$out$err");
    diag('agenda: ' . ($node->psql('postgres', 'SELECT to_jsonb(d) FROM op_due d WHERE op_id = ' . sql_text($op)))[1]);
    return;
}

# ---------------------------------------------------------------------------------------------
# What must be true after every story
# ---------------------------------------------------------------------------------------------

# check_invariants($node, $double | [$doubles], exceptions...)
#   lost_unsent => n   claims whose worker died before a byte left (they are 'lost', without a request)
#   effects     => {op => n}   where a test makes the provider double on purpose
sub check_invariants
{
    my ($node, $doubles, %except) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @doubles = ref $doubles eq 'ARRAY' ? @$doubles : ($doubles);
    my @sends = map { $_->requests(kind => 'send') } @doubles;

    _one_effect(\@doubles, $except{effects} || {});
    _same_bytes(\@sends);
    _attempts_match_requests($node, \@sends, $except{lost_unsent} || 0);
    _nothing_forgotten($node);
    return;
}

# I1. A failed object moved no money; generations of one operation count together. A proxy cannot know.
sub _one_effect
{
    my ($doubles, $allowed) = @_;
    my %count;
    for my $double (grep { $_->counts_effects } @$doubles)
    {
        my $living = $double->effects->{living};
        $count{ _op_of($_) } += $living->{$_} for keys %$living;
    }
    my @twice = grep { $count{$_} > ($allowed->{$_} || 1) } sort keys %count;
    is("@twice", '', 'I1: no operation took effect twice');
    return;
}

sub _op_of
{
    my ($marker) = @_;
    $marker =~ s/~\d+$//;
    return $marker;
}

# I2. A body that did not arrive whole says nothing about the bytes.
sub _same_bytes
{
    my ($sends) = @_;
    my (%keys, %bodies, @bad);
    for my $request (grep { $_->{complete} && defined $_->{op} } @$sends)
    {
        $keys{ $request->{op} }{ $request->{key} // '' } = 1;
        $bodies{ $request->{op} }{ $request->{target} . ' ' . $request->{body_base64} } = 1;
    }
    @bad = grep { keys %{ $keys{$_} } > 1 || keys %{ $bodies{$_} } > 1 } sort keys %keys;
    is("@bad", '', 'I2: one key and the very same bytes for each generation');
    return;
}

# I3. What has a number below zero came late, beside what is on record of its request.
sub _attempts_match_requests
{
    my ($node, $sends, $lost_unsent) = @_;
    my $recorded = $node->safe_psql('postgres', q{
        SELECT count(*) FILTER (WHERE lost OR NOT (verdict = 'not_sent' OR coalesce(bytes_sent, 1) = 0))
        FROM (SELECT *, verdict = 'lost' OR coalesce(reason, '') LIKE 'lost%' AS lost FROM op_attempt WHERE kind = 'send' AND n > 0) a});
    my $good = is($recorded - $lost_unsent, scalar @$sends, 'I3: an attempt on record for each request, and a request for each attempt that left');
    return if $good;
    diag($node->safe_psql('postgres', q{
        SELECT op_id, n, verdict, reason, bytes_sent FROM op_attempt WHERE kind = 'send' ORDER BY started_at}));
    return;
}

# I4
sub _nothing_forgotten
{
    my ($node) = @_;
    my $forgotten = $node->safe_psql('postgres', q{
        SELECT op_id, state FROM op_operation o
        WHERE state NOT IN ('confirmed', 'failed', 'cancelled', 'review', 'held') AND contradiction IS NOT TRUE
        AND NOT EXISTS (SELECT FROM op_due d WHERE d.op_id = o.op_id)});
    is($forgotten, '', 'I4: whatever has not ended has a next step');
    return;
}

# ---------------------------------------------------------------------------------------------
# Servers beside the database
# ---------------------------------------------------------------------------------------------

# start_provider(cert => file, key => file)
sub start_provider
{
    my (%opts) = @_;
    my @command = ($ENV{PYTHON} || 'python3', "$tools/provider.py", map { ("--$_", $opts{$_}) } sort keys %opts);
    return OpLedger::Server->start('provider', @command);
}

# start_proxy(HOST:PORT of the real server)
sub start_proxy
{
    my ($upstream) = @_;
    return OpLedger::Server->start('proxy', $ENV{PYTHON} || 'python3', "$tools/dropping_proxy.py", '--upstream', $upstream);
}

# The third party's Stripe double; it has no control interface.
sub start_stripe_mock
{
    die "stripe-stateful-mock is not installed: npm ci --prefix test/provider\n" unless -d "$tools/node_modules/stripe-stateful-mock";
    return OpLedger::Server->start('stripe mock', $ENV{NODE} || 'node', "$tools/stripe_mock.js");
}

# A self-signed certificate for 127.0.0.1: (certificate, key)
sub certificate
{
    my $dir = PostgreSQL::Test::Utils::tempdir('tls');
    $dir = POSIX::getcwd() . "/$dir" unless $dir =~ m{^/};
    my @files = ("$dir/cert.pem", "$dir/key.pem");
    PostgreSQL::Test::Utils::system_or_bail('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost',
        '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-out', $files[0], '-keyout', $files[1]);
    return @files;
}

# ---------------------------------------------------------------------------------------------
# Many operations, and what they went through
# ---------------------------------------------------------------------------------------------

push @EXPORT, qw(submit_many wait_count all_ended watch_states states_seen sends_of status_kb);

# PREFIX-1 … PREFIX-n, in one transaction; each refunds its own payment.
sub submit_many
{
    my ($node, $prefix, $action, $n) = @_;
    $node->safe_psql('postgres', sprintf q{
        SELECT count(op_submit(%1$s || '-' || i, %2$s, jsonb_build_object('payment_intent', 'pi-' || %1$s || '-' || i, 'amount', i)))
        FROM generate_series(1, %3$d) i}, sql_text($prefix), sql_text($action), $n);
    return;
}

# One test: that many operations come to fulfil the condition.
sub wait_count
{
    my ($node, $n, $where, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $good = ok(wait_sql($node, "SELECT count(*) = $n FROM op_operation WHERE $where", "$n with $where"), $name || "$n: $where");
    diag($node->safe_psql('postgres', 'SELECT state, reason, count(*) FROM op_operation GROUP BY 1, 2 ORDER BY 1, 2')) unless $good;
    return $good;
}

# One test: all operations whose id begins like this end as told, and none otherwise.
sub all_ended
{
    my ($node, $prefix, $state, $n, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return wait_count($node, $n, "op_id LIKE '$prefix%' AND state = '$state'", $name || "$n $prefix…: $state");
}

# From now on, remember every state that an operation was in.
sub watch_states
{
    my ($node) = @_;
    $node->safe_psql('postgres', q{
        CREATE TABLE public.seen (op_id text, state text, at timestamptz DEFAULT clock_timestamp());
        CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO public.seen VALUES (NEW.op_id, NEW.state); RETURN NULL; END';
        CREATE TRIGGER see AFTER INSERT OR UPDATE OF state ON op_operation FOR EACH ROW EXECUTE FUNCTION public.see()});
    return;
}

# 'pending submitted unknown confirmed': in order, repetitions left out.
sub states_seen
{
    my ($node, $op) = @_;
    my @states = split /\n/, $node->safe_psql('postgres', 'SELECT state FROM seen WHERE op_id = ' . sql_text($op) . ' ORDER BY at');
    my @changes = map { $states[$_] } grep { $_ == 0 || $states[$_] ne $states[ $_ - 1 ] } 0 .. $#states;
    return "@changes";
}

# The send requests that a double saw of one operation.
sub sends_of
{
    my ($double, $op) = @_;
    return $double->requests(kind => 'send', op => $op);
}

# A line of /proc/PID/status in kB, like VmRSS.
sub status_kb
{
    my ($pid, $name) = @_;
    my ($kb) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^$name:\s+(\d+) kB/m;
    return $kb;
}

# ---------------------------------------------------------------------------------------------
# Processes and time
# ---------------------------------------------------------------------------------------------

push @EXPORT, qw(within worker_row no_worker launcher_pid log_position log_since complaints sqlstate_of hang_all);

# One test: it takes at most this long. Returns what the code returned.
sub within
{
    my ($seconds, $name, $code) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $start  = Time::HiRes::time();
    my $result = $code->();
    my $took   = Time::HiRes::time() - $start;
    cmp_ok($took, '<', $seconds, sprintf '%s (%.2f s, less than %s s)', $name, $took, $seconds);
    return $result;
}

# The worker as pg_stat_activity shows it.
sub worker_row
{
    my ($node, %opts) = @_;
    my $db = $opts{database} || 'postgres';
    return from_json($node->safe_psql('postgres',
        "SELECT coalesce((SELECT to_jsonb(a) FROM pg_stat_activity a WHERE backend_type = 'op_ledger worker' AND datname = '$db'), '{}')"));
}

sub no_worker
{
    my ($node, %opts) = @_;
    my $db = $opts{database} || 'postgres';
    my $and = $opts{pid} ? " AND pid = $opts{pid}" : '';
    return wait_sql($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'op_ledger worker' AND datname = '$db'$and",
        "the end of the worker of $db");
}

sub launcher_pid
{
    my ($node, %opts) = @_;
    my $not = $opts{not} || 0;
    my $find = "FROM pg_stat_activity WHERE backend_type = 'op_ledger launcher' AND pid <> $not";
    wait_sql($node, "SELECT count(*) = 1 $find", 'a launcher');
    return $node->safe_psql('postgres', "SELECT pid $find");
}

sub log_position { return -s $_[0]->logfile || 0; }

sub log_since
{
    my ($node, $position) = @_;
    return PostgreSQL::Test::Utils::slurp_file($node->logfile, $position);
}

# Its lines of this level and above, in one text.
sub complaints
{
    my ($node, $position, $levels) = @_;
    return join "\n", grep { /\b(?:$levels): / } split /\n/, log_since($node, $position);
}

# The SQLSTATE that a statement ends with; 00000: none.
sub sqlstate_of
{
    my ($node, $sql, %opts) = @_;
    my ($rc, $out, $err) = $node->psql($opts{database} || 'postgres', $sql, on_error_stop => 1, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
    return $err =~ /ERROR:\s+([0-9A-Z]{5})/ ? $1 : $rc == 0 ? '00000' : "no SQLSTATE: $err";
}

# Submits operations PREFIX-1 .. PREFIX-n whose requests are taken, take effect and are never answered.
sub hang_all
{
    my ($node, $double, $action, $prefix, $n, %opts) = @_;
    my @ops = map { "$prefix-$_" } 1 .. $n;
    $double->script(map { { match => { kind => 'send', op => $_ }, do => $opts{do} || 'hang' } } @ops);
    $node->safe_psql($opts{database} || 'postgres', sprintf q{
        SELECT count(op_submit(op, %s, jsonb_build_object('payment_intent', 'pi_' || op, 'amount', 1))) FROM unnest(ARRAY[%s]) op},
        sql_text($action), join ',', map { sql_text($_) } @ops);
    for my $op (@ops)
    {
        $double->wait(effects => 1, op => $op) if ($opts{do} || 'hang') eq 'hang';
        $double->wait(requests => 1, kind => 'send', op => $op) if ($opts{do} || 'hang') ne 'hang';
    }
    return @ops;
}

1;
