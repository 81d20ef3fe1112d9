# Answers as caches, gateways and old servers pack them: in a content coding that nobody asked for, in UTF-16, with
# the id in a header and nothing else, or no HTTP at all. Read as they are meant, within the limit; kept as they
# came; and no secret gets into a table in a wrapping.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use Digest::SHA qw(hmac_sha256_hex);
use Encode ();
use IO::Compress::Deflate qw(deflate);
use IO::Compress::Gzip qw(gzip);
use IO::Uncompress::Gunzip qw(gunzip);
use MIME::Base64 qw(encode_base64);
use OpLedger;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $secret = 'whsec_not_a_real_secret';
my $double = start_provider();
my $node = new_node(name => 'coding', secrets => { 'hook.key' => $secret });
add_provider($node, 'bank', double => $double, spec => {
    response_limit => 65536,
    webhook => { scheme => 'stripe', secret => 'file:hook.key', object => '$.data.object', id => '$.id' } });

sub query { return $node->safe_psql('postgres', $_[0]); }
sub refund { my ($op) = @_; return submit($node, $op, 'bank.refund', { payment_intent => "pi_$op", amount => 500 }); }
sub base64 { return encode_base64($_[0], ''); }
sub packed_gzip { my ($text) = @_; gzip(\$text, \my $packed, -Minimal => 1) or die; return $packed; }
sub packed_deflate { my ($text) = @_; deflate(\$text, \my $packed) or die; return $packed; }
sub lookups { return query("SELECT string_agg(verdict || ' ' || reason, ', ' ORDER BY n) FROM op_attempt WHERE kind = 'lookup' AND op_id = '$_[0]'"); }

sub verdict_of { my ($op) = @_; my $attempt = first_attempt($node, $op); return "$attempt->{verdict} $attempt->{reason}"; }

sub refund_in { my ($id, $op) = @_; return to_json({ id => $id, status => 'succeeded', metadata => { op_id => $op } }); }

# A send whose lookups are all packed like this.
sub answer { my ($coding, $body, %more) = @_; return { answer => { headers => { 'Content-Encoding' => $coding }, body_base64 => base64($body), %more } }; }

subtest 'what nobody asked for' => sub {
    $double->script(
        { match => { op => 'gzip', kind => 'send' }, do => { answer => { gzip => true } } },
        { match => { op => 'deflate', kind => 'send' }, do => answer(deflate => packed_deflate(refund_in('re_deflate', 'deflate'))) },
        { match => { op => 'wide', kind => 'send' }, do => { answer => { headers => { 'Content-Type' => 'application/json; charset=utf-16' },
                    body_base64 => base64(Encode::encode('UTF-16', refund_in('re_wide', 'wide'))) } } });
    refund($_) for qw(gzip deflate wide);
    wait_state($node, $_, 'confirmed', "$_: confirmed") for qw(gzip deflate wide);
    is(verdict_of($_), 'confirmed ok', "$_: by its first answer") for qw(gzip deflate wide);
    my $came = pack 'H*', query(q{SELECT encode(response_body, 'hex') FROM op_attempt WHERE op_id = 'gzip'});
    gunzip(\$came, \my $plain) or fail('what came is kept as it came');
    is(from_json($plain)->{metadata}{op_id}, 'gzip', 'what came is kept as it came');
    like(query(q{SELECT op_evidence('gzip') #>> '{attempts,0,response_body,text}'}), qr/"op_id": "gzip"/, 'and shown as it reads');
    is(query(q{SELECT op_evidence('gzip') #>> '{attempts,0,response_body,sha256}'}), query(q{SELECT encode(sha256(response_body), 'hex') FROM op_attempt WHERE op_id = 'gzip'}),
        'with the digest of what came');
};

subtest 'a refusal is read' => sub {
    $double->script({ match => { op => 'refused' }, do => { effect => false,
                %{ answer(gzip => packed_gzip('{"error": {"code": "charge_already_refunded"}}'), status => 400) } } },
        { match => { op => 'hidden', kind => 'send' }, do => { effect => false, %{ answer(br => "\x8b\x0e\x80{}", status => 400) } } });
    refund($_) for qw(refused hidden);
    is(verdict_of('refused'), 'already_done http_400', 'its code is seen by the rules');
    is(verdict_of('hidden'), 'unknown encoding_br', 'one that cannot be decoded is no refusal');
};

subtest 'lookups' => sub {
    $double->script(
        { match => { op => 'lost', kind => 'send' }, do => 'drop' },
        { match => { kind => 'lookup', contains => 'pi_lost', nth => 1 }, do => answer(zstd => "\x28\xb5\x2f\xfd\x04") },
        { match => { kind => 'lookup', contains => 'pi_lost' }, do => { answer => { gzip => true } }, times => 'always' });
    refund('lost');
    wait_state($node, 'lost', 'confirmed');
    is(lookups('lost'), 'inconclusive encoding_zstd, found found', 'what cannot be decoded says so, what can is read');
};

subtest 'a bomb' => sub {
    $double->script({ match => { op => 'bomb', kind => 'send' }, do => answer(gzip => packed_gzip(refund_in('re_bomb', 'bomb') . ' ' x 100_000)) });
    refund('bomb');
    wait_state($node, 'bomb', 'confirmed', 'its lookup confirms it');
    is(verdict_of('bomb'), 'unknown cut', 'the answer is cut where a long one is');
    cmp_ok(query(q{SELECT length(response_body) FROM op_attempt WHERE op_id = 'bomb' AND kind = 'send'}), '<', 1000, 'what came is kept');
};

# A server that shows the request in its answer, in a wrapping.
subtest 'the secret in it' => sub {
    my $echo = to_json({ seen => 'Authorization: Bearer ' . OpLedger::SECRET });
    $double->script(
        { match => { op => 'echo-gzip', kind => 'send' }, do => answer(gzip => packed_gzip($echo), status => 500) },
        { match => { op => 'echo-wide', kind => 'send' }, do => { answer => { status => 500, headers => { 'Content-Type' => 'application/json; charset=utf-16le' },
                    body_base64 => base64(Encode::encode('UTF-16LE', $echo)) } } });
    refund($_) for qw(echo-gzip echo-wide);
    wait_state($node, $_, 'confirmed') for qw(echo-gzip echo-wide);
    for my $op (qw(echo-gzip echo-wide))
    {
        like(readable((attempts($node, $op, kind => 'send'))[0]), qr/"seen":"Authorization: Bearer \*+"/, "$op: kept as it reads, without the secret");
        like(query("SELECT op_evidence('$op') #>> '{attempts,0,response_body,text}'"), qr/"seen":"Authorization: Bearer \*+"/, "$op: and shown");
    }
};

subtest 'what the provider tells by itself' => sub {
    $double->script({ match => { op => 'told' }, do => { object => { status => 'pending' } } });
    refund('told');
    wait_state($node, 'told', 'accepted');
    my $id = query(q{SELECT external_id FROM op_operation WHERE op_id = 'told'});
    my $body = packed_gzip(to_json({ id => 'evt_1', data => { object => from_json(refund_in($id, 'told')) } }));
    my $at = time;
    my $headers = to_json({ 'Stripe-Signature' => "t=$at,v1=" . hmac_sha256_hex("$at.$body", $secret), 'content-encoding' => 'gzip' });
    is(query('SELECT (op_webhook(' . sql_text('bank') . ', ' . sql_text($headers) . ", '\\x" . unpack('H*', $body) . "')).state"), 'confirmed', 'a packed webhook is read');
    is(query(q(SELECT op_evidence('told') #>> '{attempts,0,response_body,text}' LIKE '{"data":%')), 't', 'and shown as it reads');
};

# 201 or 202, a Location, and no body.
subtest 'an id in a header' => sub {
    my %thing = (args => { sku => { type => 'text' } }, request => { path => '/things', json => { sku => '{sku}', reference => '{marker}' } });
    add_action($node, 'bank.thing', 'bank', { %thing, object => { id => 'header:Location[last]', marker => '$.reference' }, poll => { path => '/things/{external_id}' } });
    my $bare = sub { return { answer => { status => $_[0], headers => { Location => $double->url . '/things/%ID%?by=header' }, body => '' } }; };
    $double->script({ match => { op => 'made', kind => 'send' }, do => $bare->(201) }, { match => { op => 'begun', kind => 'send' }, do => $bare->(202) },
        { match => { op => 'nameless', kind => 'send' }, do => { answer => { status => 201, body => '' } } });
    submit($node, $_, 'bank.thing', { sku => 'A7' }) for qw(made begun nameless);
    wait_state($node, $_, 'confirmed') for qw(made begun);
    my %id = map { ($_->{reference} // '') => $_->{id} } @{ $double->effects->{objects} };
    is(query("SELECT external_id FROM op_operation WHERE op_id = '$_'"), $id{$_}, "$_: the header's id") for qw(made begun);
    is(query(q{SELECT string_agg(kind || ' ' || verdict, ', ' ORDER BY n) FROM op_attempt WHERE op_id = 'begun'}), 'send accepted, lookup found', 'not final: asked for by it');
    is(verdict_of('nameless'), 'unknown empty_body', 'without the header it is no confirmation');
};

subtest 'no HTTP' => sub {
    $double->script({ match => { op => 'ssh', kind => 'send' }, do => { raw_base64 => base64("SSH-2.0-OpenSSH_9.2\r\n\r\n"), then => 'close' } },
        { match => { op => 'odd', kind => 'send' }, do => { raw_base64 => base64("HTTP/7.5 200 OK\r\nContent-Length: 2\r\n\r\n{}"), then => 'close' } });
    refund($_) for qw(ssh odd);
    wait_state($node, $_, 'confirmed', "$_: looked up") for qw(ssh odd);
    is(verdict_of($_), 'unknown not_http', "$_: the answer is no HTTP") for qw(ssh odd);
};

check_invariants($node, $double);
done_testing();
