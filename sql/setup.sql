-- A provider for the tests that follow. It is paused: nothing leaves this machine,
-- and states stay what the test made them.
SET client_min_messages = warning;
SELECT op_provider_add('stripe', profile => 'stripe', base_url => 'https://127.0.0.1:1', secret => 'file:stripe.key');
SELECT op_provider_add('shop', base_url => 'https://127.0.0.1:1');
SELECT op_action_add('shop.order', 'shop', '{
	"args": {"sku": {"type": "text"}, "count": {"type": "integer", "min": 1, "max": 99}},
	"request": {"method": "POST", "path": "/orders", "json": {"sku": "{sku}", "count": "{count}", "ref": "{marker}"}},
	"object": {"id": "$.id", "marker": "$.ref"},
	"lookup": {"path": "/orders", "query": {"ref": "{marker}"}, "items": "$.orders[*]"}}');
SELECT op_provider_pause('stripe', 'regression tests'), op_provider_pause('shop', 'regression tests');
SELECT name, provider, template FROM op_action ORDER BY name;
