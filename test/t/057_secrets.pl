# Secrets: the provider gets them, and nobody else ever sees one, however much is logged and whatever goes
# wrong. Where one cannot be read, nothing is sent, and what was submitted waits.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use MIME::Base64 qw(encode_base64);
use OpLedger;
use OpLedger::Authority;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The marker is in every secret; what Basic makes of it is looked for as well.
my $marker = 'hush-4f1d0c77';
my %secrets = (
    'bearer.key' => "sk_live_$marker-bearer",
    'basic.key'  => "user-$marker:word-$marker",
    'header.key' => "key $marker header",
    'wrong.key'  => "sk_live_$marker-wrong",
);
my @forbidden = ($marker, map { substr encode_base64($secrets{$_}, ''), 0, 24 } sort keys %secrets);

my $elsewhere = PostgreSQL::Test::Utils::tempdir('elsewhere');
$elsewhere = POSIX::getcwd() . "/$elsewhere" unless $elsewhere =~ m{^/};

my $node = do {
    local $ENV{OP_TEST_SECRET} = "sk_env_$marker";
    new_node(name => 'secrets', secrets => \%secrets, conf => q{
shared_preload_libraries = 'op_ledger, auto_explain, pg_stat_statements'
log_min_error_statement = debug5
log_error_verbosity = verbose
log_statement = all
log_min_duration_statement = 0
log_parameter_max_length = -1
log_parameter_max_length_on_error = -1
log_connections = on
log_lock_waits = on
log_temp_files = 0
debug_print_plan = on
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
auto_explain.log_nested_statements = on
auto_explain.log_verbose = on
auto_explain.log_level = log
pg_stat_statements.track = all
pg_stat_statements.track_utility = on
track_activity_query_size = 64kB
});
};
my $double = start_provider();
my $dir    = query('SHOW op_ledger.secret_dir');
query('CREATE EXTENSION pg_stat_statements');

# Only now: at debug3 the server itself writes its environment into the log when it starts.
query(q{ALTER SYSTEM SET log_min_messages = 'debug5'});
$node->reload;

sub query { return $node->safe_psql('postgres', $_[0]); }

sub refund
{
    my ($op, $provider) = @_;
    return submit($node, $op, "$provider.refund", { payment_intent => "pi_$op", amount => 500 });
}

sub authorization_of
{
    my ($op, $name) = @_;
    my %header = map { lc $_->[0] => $_->[1] } @{ ((sends_of($double, $op))[-1] || { headers => [] })->{headers} };
    return $header{ lc($name || 'Authorization') };
}

sub write_secret
{
    my ($name, $text) = @_;
    open my $fh, '>', "$dir/$name" or die "$dir/$name: $!";
    print $fh $text;
    close $fh;
    return;
}

# ---------------------------------------------------------------------------------------------
# Every way in which a secret is used
# ---------------------------------------------------------------------------------------------

my %providers = (
    bearer => [ 'file:bearer.key',    {} ],
    basic  => [ 'file:basic.key',     { auth => { scheme => 'basic' } } ],
    header => [ 'file:header.key',    { auth => { scheme => 'header', name => 'X-Api-Key' } } ],
    env    => [ 'env:OP_TEST_SECRET', {} ],
);
subtest 'the provider gets the secret' => sub {
    add_provider($node, $_, double => $double, secret => $providers{$_}[0], spec => $providers{$_}[1]) for sort keys %providers;
    refund("to-$_", $_) for sort keys %providers;
    wait_state($node, "to-$_", 'confirmed') for sort keys %providers;
    is(authorization_of('to-bearer'), "Bearer $secrets{'bearer.key'}", 'bearer');
    is(authorization_of('to-basic'), 'Basic ' . encode_base64($secrets{'basic.key'}, ''), 'basic');
    is(authorization_of('to-header', 'X-Api-Key'), $secrets{'header.key'}, 'a header of its own');
    is(authorization_of('to-env'), "Bearer sk_env_$marker", 'from the environment');

    $double->script({ match => { op => 'to-lookup' }, do => 'drop' });
    refund('to-lookup', 'bearer');
    wait_state($node, 'to-lookup', 'confirmed');
    my ($lookup) = grep { $_->{target} =~ /to-lookup/ } $double->requests(kind => 'lookup');
    like(to_json($lookup->{headers}), qr/Bearer \Q$secrets{'bearer.key'}\E/, 'lookups carry it, too');
};

subtest 'a secret that is replaced counts at once' => sub {
    write_secret('bearer.key', "sk_live_$marker-second\r\n");
    refund('rotated', 'bearer');
    wait_state($node, 'rotated', 'confirmed');
    is(authorization_of('rotated'), "Bearer sk_live_$marker-second", 'without a reload, and without the line end');
};

# ---------------------------------------------------------------------------------------------
# Everything that can go wrong while one is in hand
# ---------------------------------------------------------------------------------------------

my @ops;    # that must end confirmed

subtest 'errors in every step' => sub {
    my ($cert, $key) = certificate();
    my $tls  = start_provider(cert => $cert, key => $key);
    my %dead = (refused => $double->url_of('refused'), silent => $double->url_of('silent', 'https'), untrusted => $tls->tls_url,
        nowhere => 'http://nowhere.invalid', 'no-tls' => 'https://127.0.0.1:' . $double->port);
    for my $name (sort keys %dead)
    {
        add_provider($node, $name, url => $dead{$name}, secret => 'file:bearer.key', spec => { retry => { initial => '1 min', max => '1 min' } });
        refund("dead-$name", $name);
    }
    my %answers = (
        hang       => 'hang', drop => 'drop', reset => 'reset', 'write' => { stop_reading => { after => 10, then => 'reset' } }, torn => { truncate => 3 },
        redirect   => { effect => true, answer => { status => 302, headers => { Location => 'http://127.0.0.1:1/' } } }, '500' => 'effect_then_500',
        garbage    => { answer => { body => "\0" } }, 'odd head' => { answer => { headers => [ [ 'X-Odd', { base64 => encode_base64("\xff", '') } ] ] } },
        '429'      => { effect => false, answer => { status => 429 } }, stray => 'stray',
        # A server that shows the request in its answer: then the answer is what must not be kept as it came.
        echo       => { effect => true, answer => { status => 500, headers => [ [ 'X-Seen', "X-Api-Key: $secrets{'header.key'}" ] ],
                                                    body => "you sent X-Api-Key: $secrets{'header.key'} twice: $secrets{'header.key'}" } },
    );
    for my $name (sort keys %answers)
    {
        my $match = $name eq 'write' ? { kind => 'send' } : { op => "wrong-$name" };
        $double->script({ match => $match, do => $answers{$name} });
        refund("wrong-$name", 'header');
        first_attempt($node, "wrong-$name");
        push @ops, "wrong-$name";
    }
    first_attempt($node, "dead-$_") for sort keys %dead;
    query(q{SELECT op_cancel(op_id) FROM op_operation WHERE op_id LIKE 'dead-%' AND state = 'pending'});

    # Triggers that raise while an answer is stored, and while a request is claimed.
    query(q{
        CREATE SEQUENCE public.raises;
        CREATE FUNCTION public.raise() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('public.raises') % 5 < 2 THEN
                RAISE EXCEPTION 'not %: %', TG_ARGV[0], to_jsonb(NEW);
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER a BEFORE INSERT ON op_attempt FOR EACH ROW WHEN (NEW.op_id LIKE 'raise-%') EXECUTE FUNCTION raise('attempt');
        CREATE TRIGGER b BEFORE UPDATE ON op_due FOR EACH ROW WHEN (NEW.op_id LIKE 'raise-%') EXECUTE FUNCTION raise('claim')});
    refund("raise-$_", 'basic') for 1 .. 4;
    push @ops, map { "raise-$_" } 1 .. 4;
    wait_sql($node, q{SELECT count(*) = 0 FROM op_due WHERE op_id LIKE 'raise-%'}, 'the raising ones to end');
    query('DROP TRIGGER a ON op_attempt; DROP TRIGGER b ON op_due');
    wait_state($node, $_, 'confirmed') for @ops;
};

# A credential that the provider does not know.
subtest 'the wrong secret' => sub {
    add_provider($node, 'strict', double => $double, secret => 'file:wrong.key');
    $double->script({ match => { op => 'strict' }, do => { effect => false, answer => { status => 401, json => { error => { message => 'Invalid API key' } } } } });
    refund('strict', 'strict');
    is(first_attempt($node, 'strict')->{verdict}, 'blocked', '401: blocked');
    is(state_of($node, 'strict'), 'pending', 'the operation waits');
    is(query(q{SELECT paused FROM op_provider WHERE name = 'strict'}), 't', 'and the provider is paused');
    write_secret('wrong.key', "sk_live_$marker-right\n");
    query(q{SELECT op_provider_resume('strict')});
    wait_state($node, 'strict', 'confirmed');
    is(authorization_of('strict'), "Bearer sk_live_$marker-right", 'with the right one');
};

# ---------------------------------------------------------------------------------------------
# Secrets that cannot be read
# ---------------------------------------------------------------------------------------------

my %unreadable = (
    missing   => [ 'missing.key',   sub { } ],
    empty     => [ 'empty.key',     sub { write_secret('empty.key', "\n") } ],
    directory => [ 'directory.key', sub { mkdir "$dir/directory.key" } ],
    link      => [ 'link.key',      sub { symlink "$elsewhere/outside.key", "$dir/link.key" } ],
    climbing  => [ 'climbing.key',  sub { symlink '../' . ($elsewhere =~ s{.*/}{}r) . '/outside.key', "$dir/climbing.key" } ],
    forbidden => [ 'forbidden.key', sub { write_secret('forbidden.key', "sk_$marker"); chmod 0, "$dir/forbidden.key" } ],
    breaks    => [ 'breaks.key',    sub { write_secret('breaks.key', "sk_$marker\r\nX-Evil: 1") } ],
    binary    => [ 'binary.key',    sub { write_secret('binary.key', "sk_$marker\0\1") } ],
    huge      => [ 'huge.key',      sub { write_secret('huge.key', "sk_$marker" x 10_000) } ],
);
subtest 'a secret that cannot be read' => sub {
    open my $fh, '>', "$elsewhere/outside.key" or die $!;
    print $fh "sk_outside_$marker\n";
    close $fh;
    my $requests = $double->requests;
    for my $name (sort keys %unreadable)
    {
        my ($file, $prepare) = @{ $unreadable{$name} };
        $prepare->();
        add_provider($node, $name, double => $double, secret => "file:$file");
        refund("secret-$name", $name);
    }
    add_provider($node, 'variable', double => $double, secret => 'env:OP_TEST_NO_SUCH_SECRET');
    refund('secret-variable', 'variable');
    for my $name ((sort keys %unreadable), 'variable')
    {
        my $attempt = first_attempt($node, "secret-$name");
        is("$attempt->{verdict} $attempt->{reason} $attempt->{bytes_sent}", 'blocked secret 0', "$name: blocked");
        is(state_of($node, "secret-$name"), 'pending', "$name: the operation waits");
        is(query("SELECT paused FROM op_provider WHERE name = '$name'"), 't', "$name: the provider is paused");
        like(query(q{SELECT string_agg(concat_ws(' ', status, detail, hint), E'\n') FROM op_health() WHERE check_name = 'provider'}),
            qr/critical provider "$name" is paused.*secret.*op_provider_resume\('$name'\)/, "$name: op_health tells, and what to do");
    }
    is(scalar $double->requests, $requests, 'nothing was sent');
};

subtest 'and is repaired' => sub {
    for my $name (sort keys %unreadable)
    {
        my ($file) = @{ $unreadable{$name} };
        rmdir "$dir/$file" or unlink "$dir/$file";
        write_secret($file, "sk_repaired_$marker\n");
        query("SELECT op_provider_resume('$name')");
    }
    wait_state($node, "secret-$_", 'confirmed') for sort keys %unreadable;
    is(authorization_of('secret-link'), "Bearer sk_repaired_$marker", 'with the secret of the file');
    query(q{UPDATE op_provider SET secret = 'env:OP_TEST_SECRET' WHERE name = 'variable'; SELECT op_provider_resume('variable')});
    wait_state($node, 'secret-variable', 'confirmed');
};

subtest 'a secret is named, never given' => sub {
    my %refused = (
        'a path' => 'file:../bearer.key', 'an absolute path' => 'file:/etc/passwd', 'a hidden file' => 'file:.bearer.key', 'a deep path' => 'file:a/b.key',
        'nothing' => 'file:', 'no scheme' => 'bearer.key', 'another scheme' => 'http://example.com/key', 'not a variable' => 'env:a b',
    );
    for my $name (sort keys %refused)
    {
        my ($status, $out, $err) = $node->psql('postgres', "SELECT op_provider_add('named', base_url => 'http://127.0.0.1:1', secret => '$refused{$name}')");
        like($err, qr/ERROR: .*secret/, "$name: refused");
    }
};

# ---------------------------------------------------------------------------------------------
# And now search
# ---------------------------------------------------------------------------------------------

# All values of all columns of all tables, whatever their type.
sub everything
{
    my @tables = split /\n/, query(q{
        SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')});
    my %text = map { ("table $_" => query("SELECT to_jsonb(t) FROM $_ t")) } @tables;
    # bytea is hex in jsonb.
    s/\\\\x((?:[0-9a-f]{2})*)/pack 'H*', $1/ge for values %text;
    return %text;
}

sub found_in
{
    my ($text) = @_;
    return grep { index($text, $_) >= 0 } @forbidden;
}

subtest 'nobody has seen a secret' => sub {
    my %places = (
        everything(),
        'pg_stat_activity'   => query('SELECT to_jsonb(a) FROM pg_stat_activity a'),
        'pg_stat_statements' => query('SELECT query FROM pg_stat_statements'),
        'pg_settings'        => query('SELECT to_jsonb(s) FROM pg_settings s'),
        'op_health'          => query('SELECT to_jsonb(h) FROM op_health() h'),
        'timelines'          => query('SELECT to_jsonb(t) FROM op_operation, op_timeline(op_id) t'),
        'evidence'           => query('SELECT op_evidence(op_id) FROM op_operation'),
        'the worker'         => query('SELECT to_jsonb(w) FROM _op_worker() w'),
        'its command line'   => slurp_file('/proc/' . worker_pid($node) . '/cmdline'),
        'server log'         => slurp_file($node->logfile),
    );
    my ($dump, $errors) = run_command([ 'pg_dump', $node->connstr('postgres') ]);
    is($errors, '', 'pg_dump');
    $places{'pg_dump'} = $dump =~ s/\\\\x((?:[0-9a-f]{2})*)/pack 'H*', $1/ger;

    cmp_ok(length $places{$_}, '>', 100, "$_ has something to say") for grep { !/^table|command|statements/ } sort keys %places;
    ok(exists $places{'table op_attempt'} && length $places{'table op_attempt'} > 1000, 'the tables were read');
    is(join(', ', grep { found_in($places{$_}) } sort keys %places), '', scalar(keys %places) . ' places: a secret is in none');

    my $worker = worker_pid($node);
    like($places{'server log'}, qr/\[$worker\] $_/, "though the worker logged all it can: $_") for qw(DEBUG LOG ERROR);
    like($places{'server log'}, qr/057_secrets.pl $_/, "and sessions: $_") for qw(DEBUG LOG ERROR STATEMENT);
    ok(found_in(to_json([ $double->requests ])), 'and the provider did receive them, so the search can find');
    like($places{'table op_provider'}, qr/file:bearer\.key/, 'the ledger has their names');
};

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash');
done_testing();
