# What is to be purged is exported before: one JSON document a line, whatever is in it, and nothing is
# purged that was not in it.
use strict;
use warnings FATAL => 'all';

use File::Spec;
use FindBin;
use lib $FindBin::RealBin;
use IPC::Run ();
use OpLedger;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(name => 'export');
$node->safe_psql('postgres', q{
    SELECT op_provider_add('shop', base_url => 'https://127.0.0.1:1');
    SELECT op_action_add('shop.order', 'shop', '{"args": {"text": {"type": "text"}}, "request": {"path": "/o", "json": {"text": "{text}"}}}');
    SELECT op_provider_pause('shop')});

my %texts = (
    backslash => 'C:\new\table \\\\ \" \u0041 \.',
    quotes    => q{"double" 'single' `back` $$dollar$$},
    lines     => "one\ntwo\r\nthree\rfour\x{2028}five\ttab",
    controls  => join('', map { chr } 1 .. 31, 127),
    end       => '\.',
    comma     => ',;|' . "\x{fffd}\x{1f600}",
    blank     => ' ',
);

sub query { return $node->safe_psql('postgres', $_[0]); }

# An operation with a text that ended some time ago; the same bytes came as its answer.
sub ended
{
    my ($op, $text, $ago) = @_;
    my $literal = sql_text($text);
    query(qq{SELECT op_submit('$op', 'shop.order', jsonb_build_object('text',$literal\::text)), op_cancel('$op',$literal)});
    query(qq{UPDATE op_operation SET settled_at = settled_at - interval '$ago' WHERE op_id = '$op';
        INSERT INTO op_attempt (op_id, n, kind, generation, started_at, finished_at, verdict, error, response_body)
        VALUES ('$op', -1, 'webhook', 1, now() - interval '$ago', now() - interval '$ago', 'inconclusive',$literal, convert_to($literal, 'UTF8'))});
}

# The two ways that doc/operating.md shows, each into a file.
sub export_with_psql
{
    my ($moment, $file) = @_;
    IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT op_export('$moment')" ], '>', $file) or die 'psql failed';
}

sub export_with_copy
{
    my ($moment, $file) = @_;
    query(qq{COPY (SELECT op_export('$moment')) TO '$file' WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')});
}

sub documents
{
    my ($file) = @_;
    return map { from_json($_) } split /\n/, slurp_file($file);
}

ended($_, $texts{$_}, '100 days') for sort keys %texts;
ended('young', 'young', '10 days');
my $moment = query(q{SELECT now() - interval '90 days'});
my $folder = File::Spec->rel2abs(PostgreSQL::Test::Utils::tempdir());
my %exported;

for my $way ([ 'psql', \&export_with_psql ], [ 'COPY', \&export_with_copy ])
{
    my ($name, $export) = @$way;
    subtest "exported with $name" => sub {
        $export->($moment, "$folder/$name.jsonl");
        my %found = map { $_->{op_id} => $_ } documents("$folder/$name.jsonl");
        is_deeply([ sort keys %found ], [ sort keys %texts ], 'each is one line that a JSON parser reads');
        for my $op (sort keys %texts)
        {
            is($found{$op}{requests}[0]{args}{text}, $texts{$op}, "$op: the argument");
            is($found{$op}{attempts}[0]{error}, $texts{$op}, "$op: the error");
            is($found{$op}{attempts}[0]{response_body}{text}, $texts{$op}, "$op: the answer");
            is($found{$op}{events}[0]{note}, $texts{$op}, "$op: what a person said");
        }
        $exported{$_} = 1 for keys %found;
    };
}

subtest 'purged at the same moment' => sub {
    ended('late', 'ended before the moment, after the export', '90 days');
    is(query(qq{SELECT op_purge(settled_before => '$moment')}), scalar keys %texts, 'what was exported');
    my $gone = q{SELECT op_id FROM op_operation AS o WHERE NOT EXISTS (SELECT FROM op_request AS r WHERE r.op_id = o.op_id)};
    is_deeply([ sort split /\n/, query($gone) ], [ sort keys %exported ], 'is gone, and nothing else');
    is(query(qq{SELECT count(*) FROM op_export('$moment')}), 0, 'nothing is left to export');
};

# An operation ends in a transaction that commits after the export: its moment was before that.
subtest 'a transaction that is open' => sub {
    query(q{SELECT op_submit('open', 'shop.order', '{"text": "open"}')});
    my $session = $node->background_psql('postgres');
    $session->query_safe(q{BEGIN; SELECT op_cancel('open')});
    my ($rc, $out, $err) = $node->psql('postgres', q{
        SELECT op_export((SELECT min(xact_start) FROM pg_stat_activity WHERE query LIKE '%op_cancel%' AND pid <> pg_backend_pid()))});
    like($err, qr/settled_before of op_export\(\) is .*can still end/s, 'nothing is exported that is not whole');
    is(query(q{SELECT string_agg(e::jsonb ->> 'op_id', ' ') FROM op_export(now() - interval '1 hour') AS e}), 'late young', 'an earlier moment can be taken');
    $session->query_safe('COMMIT');
    $session->quit;
};

$node->stop;
done_testing();
