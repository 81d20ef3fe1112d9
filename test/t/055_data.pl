# Bytes: the same ones at every send, whatever happens in between; nothing that a caller or a provider can
# say changes what a request is or where it goes, or loses an outcome.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use MIME::Base64 qw(encode_base64);
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $double = start_provider();
my $node   = new_node(name => 'data');

sub query { return $node->safe_psql('postgres', $_[0]); }

# What psql said, with its SQLSTATE; nothing when there was no error.
sub error_of
{
    my ($sql, $db) = @_;
    my ($status, $out, $err) = $node->psql($db || 'postgres', "\\set VERBOSITY verbose\n$sql");
    return $status == 0 ? '' : $err;
}

sub submit_sql
{
    my ($op, $action, $args, @more) = @_;
    return sprintf 'SELECT op_submit(%s)', join ', ', sql_text($op), sql_text($action), sql_text(to_json($args)) . '::jsonb', @more;
}

sub bodies { return map { $_->{body} } sends_of($double, $_[0]); }

# A thing of any shape, made by this request.
sub thing_spec
{
    my ($request, %over) = @_;
    my $spec = refund_spec(
        object => { marker => '$.op_id' },
        lookup => { path => '/things', query => { payment_intent => undef, op_id => '{marker}' }, items => '$.items[*]', more => '$.more == true' });
    return { %$spec, args => { value => { type => 'any' } }, request => { method => 'POST', %$request }, %over };
}

# ---------------------------------------------------------------------------------------------
# Keys
# ---------------------------------------------------------------------------------------------

subtest 'keys' => sub {
    add_provider($node, 'bank', double => $double);
    my @ops = ('x', 'two words', "caf\xc3\xa9", "cafe\xcc\x81", "\xf0\x9f\x98\x80", 'Case', 'case', 'run:7:step', '100%', '"quoted"', 'k' x 200, "\xe9\x80\x80" x 200);
    submit($node, $_, 'bank.refund', { payment_intent => 'pi', amount => 1 }) for grep { !/[^\x00-\x7f]/ } @ops;
    for my $op (grep { /[^\x00-\x7f]/ } @ops)
    {
        query(sprintf q{SELECT op_submit(convert_from('\x%s', 'UTF8'), 'bank.refund', '{"payment_intent": "pi", "amount": 1}')}, unpack 'H*', $op);
    }
    wait_count($node, scalar @ops, q{state = 'confirmed'});
    my %keys = map { $_->{key} => 1 } $double->requests(kind => 'send');
    is(scalar keys %keys, scalar @ops, 'each has one of its own');
    is(join(' ', grep { !/^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/ } keys %keys), '', 'that any provider takes: printable ASCII, 255 at most');
    is(query(q{SELECT count(*) FROM op_request WHERE key IS NULL OR key !~ '^[ -~]+$'}), 0, 'and it is what the ledger has');

    my %bad = (empty => '', long => 'k' x 201, 'blank before' => ' k', 'blank behind' => 'k ', generation => 'k~2',
        'line break' => "k\nX-Evil: 1", 'carriage return' => "k\rX", tab => "k\tl", escape => "k\x1b[0m", separator => "k\xe2\x80\xa8l");
    for my $name (sort keys %bad)
    {
        like(error_of(submit_sql($bad{$name}, 'bank.refund', { payment_intent => 'pi', amount => 1 })), qr/OL006: op id /, "refused: $name");
    }
};

# ---------------------------------------------------------------------------------------------
# The same bytes
# ---------------------------------------------------------------------------------------------

# The first requests have no effect, and between them all changes that could change bytes.
subtest 'the same bytes at every send' => sub {
    add_provider($node, 'odd', double => $double, spec => { retry => { attempts => 20, base => 1 } }, actions => {});
    add_action($node, 'odd.json', 'odd', thing_spec({ path => '/things', json => { op_id => '{marker}', value => '{value}', rest => '{rest}' } },
        headers => { 'X-Version' => '2026-11-29 {value}' }, args => { value => { type => 'text' }, rest => { type => 'any' } }));
    add_action($node, 'odd.form', 'odd', thing_spec({ path => '/things', form => { op_id => '{marker}', value => '{value}', rest => '{rest}' } },
        args => { value => { type => 'text' }, rest => { type => 'any' } }));
    my $rest = q({"b": 10.00, "a": 1e2, "tiny": 0.10e-7, "big": 12345678901234567890.1230, "neg": -0.0, "a": 1e2,
        "text": "\u00e9 é 😀 \ud83d\ude00 \" \\\\ / \t\n \u007f", "list": [1.0, null, true, {"z": "", "y": []}], "day": "2026-11-29T10:00:00+02:00"});
    my %op = (json => 'bytes-json', form => 'bytes-form');
    my $submit = sub { sprintf q{SELECT state FROM op_submit('%s', 'odd.%s', jsonb_build_object('value', E'caf\u00e9'::text, 'rest', %s::jsonb))}, $op{ $_[0] }, $_[0], q($rest$) . ($_[0] eq 'form' ? '{"b": 10.00, "a": 1e2, "text": "\u00e9 + & = %"}' : $rest) . q($rest$) };
    for my $kind (sort keys %op)
    {
        $double->script({ match => { kind => 'send', op => $op{$kind} }, do => { like => 'hang_before', delay_arrival => "gate-$kind" }, times => 2 });
        # An X-Version of the spec is frozen as well.
        query($kind eq 'json' ? $submit->('json') =~ s/E'caf\\u00e9'::text/'plain'::text/r : $submit->('form'));
        ok($double->wait(requests => 1, kind => 'send', op => $op{$kind}), "$kind: the first request");
    }
    query(q{
        ALTER DATABASE postgres SET DateStyle = 'German';
        ALTER DATABASE postgres SET extra_float_digits = -15;
        ALTER DATABASE postgres SET TimeZone = 'Asia/Kathmandu';
        ALTER DATABASE postgres SET IntervalStyle = 'sql_standard';
        ALTER ROLE postgres SET client_encoding = 'LATIN1'});
    $node->stop('immediate');
    $node->start;
    ok($double->wait(requests => 2, kind => 'send', op => $op{$_}), "$_: again after a crash, under other settings") for sort keys %op;
    query(q{
        UPDATE op_action SET spec = jsonb_set(spec, '{headers}', '{"X-Version": "other"}') WHERE name LIKE 'odd.%';
        ALTER ROLE postgres RESET client_encoding; ALTER DATABASE postgres RESET ALL});
    $node->restart;
    wait_state($node, $_, 'confirmed') for sort values %op;

    for my $kind (sort keys %op)
    {
        my @seen = sends_of($double, $op{$kind});
        cmp_ok(scalar @seen, '>=', 3, "$kind: sent at least three times");
        my %sent = map { my %h = map { lc $_->[0] => $_->[1] } @{ $_->{headers} }; to_json([ @$_{qw(method target body_base64)}, @h{qw(idempotency-key content-type x-version)} ]) => 1 } @seen;
        is(scalar keys %sent, 1, "$kind: method, path, body and headers are the same") or diag(join "\n", keys %sent);
        is(unpack('H*', $seen[0]{body}), query("SELECT encode(body, 'hex') FROM op_request WHERE op_id = '$op{$kind}'"), "$kind: they are the ones in the ledger");
    }
    my $json = (bodies($op{json}))[0];
    like($json, qr/"b":10\.00,.*"tiny":0\.000000010|"b":10\.00/, 'numbers have the digits that were given');
    like($json, qr/12345678901234567890\.1230/, 'all of them');
    like($json, qr/\xc3\xa9 \xc3\xa9 \xf0\x9f\x98\x80 \xf0\x9f\x98\x80/, 'text is UTF-8');
    is_deeply(from_json($json)->{rest}{list}, from_json($rest)->{list}, 'and it means the same');
    like((bodies($op{form}))[0], qr/caf%C3%A9/, 'so is a form');

    # Whoever asks again in another encoding asks for the same.
    like(error_of("SET client_encoding = 'LATIN1'; " . ($submit->('form') =~ s/E'caf\\u00e9'::text/'caf\xe9'::text/r)), qr/^$/, 'the same submit from a client in LATIN1');
};

subtest 'a dump has the same bytes, and sends none' => sub {
    my $columns = "op_id, generation, args::text, key, method, url, headers::text, encode(body, 'hex')";
    my $read = sub { return $node->safe_psql($_[0], "SELECT $columns FROM op_request ORDER BY op_id, generation") };
    my $requests = $double->requests;
    my $file = "$PostgreSQL::Test::Utils::tmp_check/data.sql";
    $node->command_ok([ 'pg_dump', '--no-sync', '-f', $file, $node->connstr('postgres') ], 'pg_dump');
    query('CREATE DATABASE copy TEMPLATE template0');
    $node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $file, $node->connstr('copy') ], 'psql');
    cmp_ok(length $read->('copy'), '>', 1000, 'it has requests');
    is($read->('copy'), $read->('postgres'), 'the same');
    is($node->safe_psql('copy', 'SELECT count(*) FROM op_due'), 0, 'with nothing to do');
    is(scalar $double->requests, $requests, 'so nothing was sent');
    $node->safe_psql('postgres', 'DROP DATABASE copy');
};

# ---------------------------------------------------------------------------------------------
# Moments
# ---------------------------------------------------------------------------------------------

# A window of three seconds and a bit that would be over before the commit.
subtest 'time is the clock, not the start of the transaction' => sub {
    add_provider($node, 'brief', double => $double, spec => { key => { ttl => '5500 ms' }, retry => { patience => '4 s' }, timeout => { connect => '500 ms', total => '1 s', flight => '1 s' } });
    $double->script({ match => { op => 'late', kind => 'send' }, do => 'drop_before' });
    query(q{
        SET timezone = 'Pacific/Kiritimati';
        BEGIN;
        CREATE TABLE moments AS SELECT now() AS began, NULL::timestamptz AS submitted, NULL::timestamptz AS committing;
        SELECT pg_sleep(3);
        UPDATE moments SET submitted = clock_timestamp();
        SELECT op_submit('late', 'brief.refund', '{"payment_intent": "pi_late", "amount": 1}');
        SELECT pg_sleep(4.2);
        UPDATE moments SET committing = clock_timestamp();
        COMMIT});
    wait_state($node, 'late', 'confirmed');
    is(scalar sends_of($double, 'late'), 2, 'sent again: window and patience count from the first send');
    is(query(q{
        SELECT concat_ws(' ', created_at - submitted BETWEEN '0' AND '1 s', first_sent_at - committing BETWEEN '0' AND '2 s', trying_since = first_sent_at,
                         last_sent_at > first_sent_at, settled_at >= last_sent_at)
        FROM op_operation, moments WHERE op_id = 'late'}), 't t t t t', 'created when it was submitted, sent after the commit');
    is(query(q{SELECT count(*) FROM op_attempt WHERE finished_at <= started_at}), 0, 'every attempt ended after it began');
    is(query(q{
        SELECT count(*) FROM information_schema.columns c JOIN pg_class r ON r.relname = c.table_name
        WHERE c.table_name LIKE 'op\_%' AND c.data_type LIKE 'timestamp%' AND c.data_type <> 'timestamp with time zone'}), 0, 'moments have a time zone');
};

# ---------------------------------------------------------------------------------------------
# What providers say
# ---------------------------------------------------------------------------------------------

subtest 'hostile answers lose no outcome' => sub {
    my $json = sub { qq({"id": "%ID%", "metadata": {"op_id": "%MARKER%"}, "status": "succeeded", $_[0]}) };
    my %mended = (
        'plain'            => $json->('"x": 1'),
        'bom'              => "\xef\xbb\xbf" . $json->('"x": 1'),
        'nul escape'       => $json->('"x": "a\u0000b"'),
        'nul in a name'    => $json->('"\u0000": 1'),
        'high surrogate'   => $json->('"x": "\ud800"'),
        'low surrogate'    => $json->('"x": "\udc00 \uDFFF"'),
        'surrogates in the wrong order' => $json->('"x": "\ude00\ud83d"'),
        'half a pair'      => $json->('"x": "\ud83d\u0041"'),
        'latin-1'          => $json->(qq("x": "caf\xe9")),
        'invalid utf-8'    => $json->(qq("x": "\xff\xfe\x80")),
        'overlong'         => $json->(qq("x": "\xc0\x80")),
        'cesu'             => $json->(qq("x": "\xed\xa0\xbd\xed\xb8\x80")),
        'cut character'    => $json->(qq("x": "\xe2\x82")),
        'beyond unicode'   => $json->(qq("x": "\xf7\xbf\xbf\xbf")),
    );
    my %garbage = (
        'raw nul'        => $json->(qq("x": "\0")),
        'gzip'           => "\x1f\x8b\x08\0\0\0\0\0\0\3\xcb\x48\xcd\xff\xff",
        'png'            => "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0",
        'html'           => "<html><body>\xe9 Login</body></html>",
        'nothing'        => '',
        'a nul'          => "\0",
        'utf-16'         => "\xff\xfe{\0}\0",
        'half a text'    => '{"id": "%ID%", "metadata": {"op_id"',
        'deep'           => ('[' x 5000) . (']' x 5000),
        'number'         => $json->('"x": 1e999999999'),
        'two texts'      => $json->('"x": 1') x 2,
        'a string'       => '"%ID%"',
    );
    my %heads = (
        '' => {},
        ', odd header'  => { headers => [ [ 'X-Odd', { base64 => encode_base64("\xff\xe9\x01\x7f", '') } ], [ 'Request-Id', { base64 => encode_base64("req_\xe9\xff", '') } ] ] },
        ', odd reason'  => { reason_base64 => encode_base64("O\xff\xe9\x01K", '') },
        ', claims gzip' => { headers => { 'Content-Encoding' => 'gzip' } },
        ', claims more' => { headers => { 'Content-Type' => 'text/plain; charset=utf-16' } },
    );
    my %bodies = (%mended, %garbage);
    my (@rules, @ops);
    for my $name (sort keys %bodies)
    {
        for my $head (sort keys %heads)
        {
            push @ops, "answer $name$head";
            push @rules, { match => { kind => 'send', op => $ops[-1] }, do => { answer => { body_base64 => encode_base64($bodies{$name}, ''), %{ $heads{$head} } } } };
        }
    }
    $double->script(@rules);
    query(sprintf q{SELECT count(op_submit(op, 'bank.refund', jsonb_build_object('payment_intent', 'pi_' || md5(op), 'amount', 1))) FROM unnest(ARRAY[%s]) op},
        join ', ', map { sql_text($_) } @ops);
    all_ended($node, 'answer ', 'confirmed', scalar @ops, scalar(@ops) . ' answers, all confirmed');

    my %hits;
    $hits{ $_->{op} }++ for grep { ($_->{op} // '') =~ /^answer / } $double->requests(kind => 'send');
    is(join(', ', grep { ($hits{$_} // 0) != 1 } @ops), '', 'each was sent once');
    my %attempts = map { my ($op, @rest) = split /\|/; ($op => \@rest) } split /\n/, query(q{
        SELECT op_id, string_agg(verdict, ' ' ORDER BY n), (array_agg(encode(response_body, 'hex') ORDER BY n))[1]
        FROM op_attempt WHERE op_id LIKE 'answer %' GROUP BY op_id});
    my %first;
    push @{ $first{ $attempts{$_}[0] } }, $_ for @ops;
    my %mendable = map { my $name = $_; map { ("answer $name$_" => 1) } keys %heads } keys %mended;
    is(join(', ', grep { $mendable{$_} && $attempts{$_}[0] ne 'confirmed' } @ops), '', 'by the first answer, where it can be mended');
    is(join(', ', grep { !$mendable{$_} && $attempts{$_}[0] !~ /^(unknown found|confirmed)$/ } @ops), '', 'by a lookup else');

    my %id_of = map { ($_->{metadata}{op_id} // '') => $_->{id} } @{ $double->effects->{objects} };
    my $came = sub { my ($op, $body) = @_; $body =~ s/%ID%/$id_of{$op}/g; $body =~ s/%MARKER%/$op/g; return unpack 'H*', $body };
    my @changed = grep { my ($name) = /^answer ([^,]*)/; ($attempts{$_}[1] // '') ne $came->($_, $bodies{$name}) } @ops;
    is(join(', ', @changed), '', 'the bytes are kept as they came');
    is(query(q{SELECT count(*) > 0 FROM op_operation, LATERAL op_timeline(op_id), LATERAL op_evidence(op_id) e WHERE op_id LIKE 'answer %' AND length(e::text) > 0}), 't', 'and people can read what happened');
};

# ---------------------------------------------------------------------------------------------
# Headers
# ---------------------------------------------------------------------------------------------

subtest 'a header is one line' => sub {
    add_provider($node, 'noted', double => $double, actions => { refund => { headers => { 'X-Note' => '{note}' }, args => { note => { type => 'text' } } } });
    my %evil = ('line' => "x\r\nX-Evil: 1", 'line feed' => "x\nX-Evil: 1", 'carriage return' => "x\rX-Evil: 1", 'control' => "x\x01X-Evil", 'delete' => "x\x7fX-Evil", 'trailing' => "X-Evil\r\n");
    for my $name (sort keys %evil)
    {
        my $error = error_of(submit_sql("header $name", 'noted.refund', { payment_intent => 'pi', amount => 1, note => $evil{$name} }));
        like($error, qr/OL004: header "X-Note" has a/, "$name: refused at submit, and the header is named");
        unlike($error =~ s/^LINE.*//smr, qr/X-Evil/, "$name: its value is not");
    }
    like(error_of(submit_sql('header trace', 'bank.refund', { payment_intent => 'pi', amount => 1 }, q{traceparent => E'00-1\r\nX-Evil: 1'})),
        qr/OL004: header "traceparent" has a line break/, 'traceparent: refused');
    like(error_of(submit_sql('header nul', 'noted.refund', { payment_intent => 'pi', amount => 1, note => "x\0y" })), qr/22P05/, 'a NUL is no jsonb');

    my %specs = (
        'a value'           => { headers => { 'X-A' => "1\r\nX-Evil: 1" } },
        'a name with colon' => { headers => { 'X-A: 1' => 'x' } },
        'a name with blank' => { headers => { 'X A' => 'x' } },
        'a name with break' => { headers => { "X-A\r\nX-Evil" => 'x' } },
        'a key name'        => { key => { in => 'header', name => "X-Key\r\nX-Evil", ttl => '0 s' } },
        'an auth name'      => { auth => { scheme => 'header', name => "X-Key: 1\nX-Evil" } },
        'Host'              => { headers => { 'Host' => 'evil.example' } },
        'Content-Length'    => { headers => { 'content-length' => '0' } },
        'Authorization'     => { headers => { 'authorization' => 'Bearer mine' } },
    );
    for my $name (sort keys %specs)
    {
        my $spec = sql_text(to_json({ %{ refund_spec() }, %{ $specs{$name} } }));
        like(error_of("SELECT op_action_add('bad.header', 'bank', $spec)"), qr/OL003: /, "$name: refused in a spec");
        like(error_of("UPDATE op_action SET spec = $spec WHERE name = 'bank.refund'"), qr/OL003: /, "$name: refused by UPDATE");
    }
    like(error_of(q{UPDATE op_provider SET spec = jsonb_set(spec, '{namespace}', to_jsonb(E'a\r\nX-Evil: '::text)) WHERE name = 'bank';} . submit_sql('header namespace', 'bank.refund', { payment_intent => 'pi', amount => 1 })),
        qr/OL00[34]: |^$/, 'a namespace with a line break makes no header');
    query(q{UPDATE op_provider SET spec = spec - 'namespace' WHERE name = 'bank'});

    is(scalar(grep { to_json($_->{headers}) =~ /evil/i } $double->requests), 0, 'no request had an evil header');
};

subtest 'a frozen request that was changed by hand is looked at again' => sub {
    add_provider($node, 'frozen', double => $double);
    query(q{SELECT op_provider_pause('frozen')});
    my %change = (
        'break'    => q{headers = headers || E'X-Tampered: 1\r\nX-Evil: secret-value'::text},
        'feed'     => q{headers = headers || E'X-Tampered: 1\nX-Evil: secret-value'::text},
        'control'  => q{headers = headers || E'X-Tampered: secret-value\x01'::text},
        'no name'  => q{headers = headers || 'secret-value'::text},
        'bad name' => q{headers = headers || 'secret value: X'::text},
        'method'   => q{method = E'POST /v1/secret-value HTTP/1.1\r\nX-Evil: 1\r\n\r\nPOST'},
        'url'      => q{url = url || E' HTTP/1.1\r\nX-Evil: secret-value'},
        'scheme'   => q{url = 'file:///etc/passwd'},
        'gopher'   => q{url = replace(url, 'http:', 'gopher:')},
    );
    for my $name (sort keys %change)
    {
        submit($node, "frozen $name", 'frozen.refund', { payment_intent => 'pi', amount => 1 });
        query("UPDATE op_request SET $change{$name} WHERE op_id = 'frozen $name'");
    }
    submit($node, 'frozen not', 'frozen.refund', { payment_intent => 'pi_frozen', amount => 1 });
    my $requests = $double->requests;
    query(q{SELECT op_provider_resume('frozen')});
    wait_state($node, 'frozen not', 'confirmed', 'others of the provider are sent');
    for my $name (sort keys %change)
    {
        my $attempt = first_attempt($node, "frozen $name");
        is("$attempt->{verdict} $attempt->{bytes_sent}", 'not_sent 0', "$name: not sent");
        unlike($attempt->{error}, qr/secret|Evil/, "$name: no value in the error");
        like($attempt->{error}, qr/header "X-Tampered" has/, "$name: but the name") if $name =~ /^(break|feed|control)$/;
        query("SELECT op_cancel('frozen $name')");
    }
    is(scalar $double->requests, $requests + 1, 'nothing of them reached the provider');
};

# ---------------------------------------------------------------------------------------------
# Where requests go
# ---------------------------------------------------------------------------------------------

subtest 'arguments cannot lead elsewhere' => sub {
    my $elsewhere = start_provider();
    add_provider($node, 'paths', double => $double, actions => {});
    add_action($node, 'paths.segment', 'paths', thing_spec({ path => '/things/{value}/x', json => { op_id => '{marker}' } }));
    add_action($node, 'paths.first', 'paths', thing_spec({ path => '/{value}', json => { op_id => '{marker}' } }));
    add_action($node, 'paths.query', 'paths', thing_spec({ path => '/things', query => { a => '{value}', b => 'end' }, json => { op_id => '{marker}' } }));
    my $port = $elsewhere->port;
    my @values = (
        "//127.0.0.1:$port", "/127.0.0.1:$port/", "\@127.0.0.1:$port/", "a\@127.0.0.1:$port", ":$port/", "http://127.0.0.1:$port/", "\\\\127.0.0.1:$port", '.', '..', '../..',
        'a/../../b', '%2e%2e', '%2e', '%2F..%2F', '..%2f', 'x?y=1', 'x#y', "x\r\nHost: 127.0.0.1:$port", "x HTTP/1.1", ' ', '', "\t", '[::1]', 'file:///etc/passwd', '{op_id}', '%00', '&c=1', 'a;b', "\xe2\x80\xae", ".\xcc\x81", '....', '..;',
    );
    my (%refused, @went);
    for my $action (qw(segment first query))
    {
        for my $i (0 .. $#values)
        {
            my $error = error_of(sprintf q{SELECT op_submit('%s', '%s', jsonb_build_object('value', convert_from('\x%s', 'UTF8')))},
                "path $action $i", "paths.$action", unpack 'H*', $values[$i]);
            if ($error eq '') { push @went, "path $action $i"; }
            else { like($error, qr/OL004: /, "$action $i: refused"); $refused{"$action $i"} = 1; }
        }
    }
    ok($refused{"$_ 7"} && $refused{"$_ 8"} && $refused{"$_ 20"}, "$_: '.', '..' and '' are refused in a path") for qw(segment first);
    my $base = $double->url;
    my %shape = (segment => qr{^/things/[^/?#\\\s]+/x$}, first => qr{^/[^/?#\\\s]+$}, query => qr{^/things\?a=[^&#\s]*&b=end$});
    for my $op (@went)
    {
        my ($action) = $op =~ /^path (\w+)/;
        my $url = query("SELECT url FROM op_request WHERE op_id = '$op'");
        is(substr($url, 0, length $base), $base, "$op: scheme, host and port are the administrator's");
        like(substr($url, length $base), $shape{$action}, "$op: the value stays in its place");
    }
    wait_sql($node, q{SELECT count(DISTINCT op_id) = (SELECT count(*) FROM op_operation WHERE op_id LIKE 'path %') FROM op_attempt WHERE op_id LIKE 'path %'}, 'all to be sent');
    my @targets = map { $_->{target} } grep { ($_->{op} // '') =~ /^path / } $double->requests(kind => 'send');
    cmp_ok(scalar @targets, '>=', scalar @went, 'all arrived');
    is(join(' ', grep { $_ !~ $shape{segment} && $_ !~ $shape{first} && $_ !~ $shape{query} } @targets), '', 'at the places that the spec says');
    is(scalar $elsewhere->connections, 0, 'and nobody else was called');

    my %specs = (
        'base_url in an action' => { base_url => $elsewhere->url },
        'a path that is a URL'  => { request => { %{ refund_spec()->{request} }, path => $elsewhere->url . '/v1' } },
        'a path with dots'      => { request => { %{ refund_spec()->{request} }, path => '/v1/../admin' } },
        'a path with %2e'       => { request => { %{ refund_spec()->{request} }, path => '/v1/%2e%2E/admin' } },
        'a path without slash'  => { request => { %{ refund_spec()->{request} }, path => "\@127.0.0.1:$port/v1" } },
    );
    like(error_of("SELECT op_action_add('bad.path', 'bank', " . sql_text(to_json({ %{ refund_spec() }, %{ $specs{$_} } })) . ')'), qr/OL003: /, "$_: refused") for sort keys %specs;
};

# ---------------------------------------------------------------------------------------------
# Other encodings
# ---------------------------------------------------------------------------------------------

subtest 'a database that is not UTF-8' => sub {
    for my $encoding (qw(LATIN1 SQL_ASCII))
    {
        my $db = lc $encoding;
        query("CREATE DATABASE $db ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
        my $error = error_of('CREATE EXTENSION op_ledger', $db);
        like($error, qr/0A000: op_ledger needs a database in UTF8, this one is in $encoding/, "$encoding: refused");
        like($error, qr/HINT: .*TEMPLATE template0/, "$encoding: with a hint");
        is($node->safe_psql($db, q{SELECT count(*) FROM pg_class WHERE relname LIKE 'op\_%'}), 0, "$encoding: and nothing is left behind");
    }
};

query(q{SELECT op_cancel(op_id) FROM op_operation WHERE state = 'pending'});
check_invariants($node, $double);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash');
unlike(slurp_file($node->logfile), qr/^\S+ \S+ \S+ \[\d+\] (?:ERROR|FATAL)/m, 'no error of a process that is no session');
done_testing();
