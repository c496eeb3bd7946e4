// Code generated from dialects/*.json by 'go test -run Data -update'. DO NOT EDIT.

package signal

// dialects are all of them, the general one last.
var dialects = []*Dialect{
	{spec: spec{Name: "akamai", Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Next", Is: "date", Scope: "user"},
	}}},
	{spec: spec{Name: "anthropic", Hosts: []string{"api.anthropic.com"}, Throttles: []int{429, 503, 529}, Bodies: []int{429, 529}, Limits: []limits{
		{Name: "requests", Unit: "requests", Limit: "Anthropic-Ratelimit-Requests-Limit", Remaining: "Anthropic-Ratelimit-Requests-Remaining", Reset: "Anthropic-Ratelimit-Requests-Reset", Is: "date"},
		{Name: "tokens", Unit: "tokens", Limit: "Anthropic-Ratelimit-Tokens-Limit", Remaining: "Anthropic-Ratelimit-Tokens-Remaining", Reset: "Anthropic-Ratelimit-Tokens-Reset", Is: "date"},
		{Name: "input-tokens", Unit: "tokens", Limit: "Anthropic-Ratelimit-Input-Tokens-Limit", Remaining: "Anthropic-Ratelimit-Input-Tokens-Remaining", Reset: "Anthropic-Ratelimit-Input-Tokens-Reset", Is: "date"},
		{Name: "output-tokens", Unit: "tokens", Limit: "Anthropic-Ratelimit-Output-Tokens-Limit", Remaining: "Anthropic-Ratelimit-Output-Tokens-Remaining", Reset: "Anthropic-Ratelimit-Output-Tokens-Reset", Is: "date"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error.message"}, Has: []string{"spend limit"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{529}, From: []string{"body error.type"}, Is: []string{"overloaded_error"}, Verdict: "throttled", Scope: "shared"},
		{From: []string{"body error.type"}},
	}}},
	{spec: spec{Name: "aws", Hosts: []string{"*.amazonaws.com", "*.amazonaws.com.cn"}, Bodies: []int{4, 5}, Waits: []wait{
		{From: "X-Amz-Retry-After", Is: "ms"},
		{From: "Retry-After", Is: "after"},
	}, Rules: []rule{
		{From: []string{"body ThrottlingReasons.*.reason"}},
		{From: []string{"body ThrottlingReasons.*.resource"}, Scope: "resource", As: "name"},
		{From: []string{"X-Amzn-Errortype", "body __type", "body code", "body <Code>"}, Trim: "code", Is: []string{"TransactionInProgressException", "PriorRequestNotComplete"}, Verdict: "throttled", Concurrency: true, Scope: "resource"},
		{From: []string{"X-Amzn-Errortype", "body __type", "body code", "body <Code>"}, Trim: "code", Is: []string{"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException", "TooManyRequestsException", "ProvisionedThroughputExceededException", "RequestLimitExceeded", "BandwidthLimitExceeded", "LimitExceededException", "RequestThrottled", "SlowDown", "EC2ThrottledException"}, Verdict: "throttled"},
		{Statuses: []int{500, 502, 503, 504}, From: []string{"X-Amzn-Errortype", "body __type", "body code", "body <Code>"}, Trim: "code", Verdict: "failed"},
	}}},
	{spec: spec{Name: "azure", Hosts: []string{"management.azure.com", "*.documents.azure.com"}, Bodies: []int{409, 429}, Limits: []limits{
		{Name: "subscription-reads", Remaining: "X-Ms-Ratelimit-Remaining-Subscription-Reads", Scope: "user"},
		{Name: "subscription-writes", Remaining: "X-Ms-Ratelimit-Remaining-Subscription-Writes", Scope: "user"},
		{From: "X-Ms-Ratelimit-Remaining-Resource", Shape: "azure", Scope: "resource"},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "X-Ms-Retry-After-Ms", Is: "ms"},
		{From: "Retry-After", Is: "after"},
	}, Rules: []rule{
		{Statuses: []int{409, 429}, From: []string{"body error.code", "body error.details.*.code"}, Is: []string{"RetryableErrorDueToAnotherOperation"}, Verdict: "throttled", Concurrency: true, Scope: "resource"},
		{From: []string{"body error.code"}},
	}}},
	{spec: spec{Name: "cerebras", Hosts: []string{"api.cerebras.ai"}, Limits: []limits{
		{Name: "requests-day", Unit: "requests", Limit: "X-Ratelimit-Limit-Requests-Day", Remaining: "X-Ratelimit-Remaining-Requests-Day", Reset: "X-Ratelimit-Reset-Requests-Day", Is: "seconds", Window: 86400},
		{Name: "tokens-minute", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens-Minute", Remaining: "X-Ratelimit-Remaining-Tokens-Minute", Reset: "X-Ratelimit-Reset-Tokens-Minute", Is: "seconds", Window: 60},
		{Name: "tokens-day", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens-Day", Remaining: "X-Ratelimit-Remaining-Tokens-Day", Reset: "X-Ratelimit-Reset-Tokens-Day", Is: "seconds", Window: 86400},
	}}},
	{spec: spec{Name: "cloudflare", Hosts: []string{"api.cloudflare.com"}, Drafts: true, Rules: []rule{
		{Statuses: []int{429}, From: []string{"Retry-After"}, Scope: "user", As: "nothing"},
	}}},
	{spec: spec{Name: "discord", Hosts: []string{"discord.com", "*.discord.com", "discordapp.com"}, Bodies: []int{429}, Limits: []limits{
		{NameFrom: "X-Ratelimit-Bucket", Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset-After", Is: "seconds", Scope: "route"},
	}, Waits: []wait{
		{From: "body retry_after", Is: "seconds"},
		{From: "Retry-After", Is: "after"},
	}, Rules: []rule{
		{From: []string{"X-Ratelimit-Global", "body global"}, Is: []string{"true"}, Scope: "global", As: "nothing"},
		{From: []string{"X-Ratelimit-Scope"}, Is: []string{"global"}, Scope: "global", As: "nothing"},
		{From: []string{"X-Ratelimit-Scope"}, Is: []string{"shared"}, Scope: "shared", As: "nothing"},
		{From: []string{"X-Ratelimit-Bucket"}, As: "name"},
		{From: []string{"body message"}},
	}, Splits: true}},
	{spec: spec{Name: "envoy", Drafts: true, First: true, Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "seconds"},
		{Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "seconds"},
	}, Rules: []rule{
		{From: []string{"X-Envoy-Ratelimited"}, Verdict: "throttled", As: "nothing"},
	}}},
	{spec: spec{Name: "github", Hosts: []string{"api.github.com", "*.ghe.com"}, Bodies: []int{403, 429}, Limits: []limits{
		{NameFrom: "X-Ratelimit-Resource", Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Used: "X-Ratelimit-Used", Reset: "X-Ratelimit-Reset", Is: "epoch", Scope: "resource"},
	}, Rules: []rule{
		{Statuses: []int{403, 429}, From: []string{"body message"}, Begins: []string{"You have exceeded a secondary rate limit"}, Verdict: "throttled", Scope: "user", Wait: 60},
		{Statuses: []int{403, 429}, From: []string{"body documentation_url"}, Ends: []string{"secondary-rate-limits", "#abuse-rate-limits"}, Verdict: "throttled", Scope: "user", Wait: 60, As: "nothing"},
		{Statuses: []int{403}, From: []string{"Retry-After"}, Verdict: "throttled", As: "nothing"},
		{Statuses: []int{403}, Empty: true, Verdict: "throttled"},
		{Statuses: []int{403, 429}, From: []string{"body message"}},
	}}},
	{spec: spec{Name: "gitlab", Hosts: []string{"gitlab.com"}, Limits: []limits{
		{NameFrom: "Ratelimit-Name", Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Used: "Ratelimit-Observed", Reset: "Ratelimit-Reset", Is: "epoch", Window: 60, Scope: "route"},
	}}},
	{spec: spec{Name: "google", Hosts: []string{"*.googleapis.com"}, Bodies: []int{403, 429, 503}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "body error.details.*.retryDelay", Is: "duration"},
	}, Rules: []rule{
		{Statuses: []int{403, 429}, From: []string{"body error.status"}, Is: []string{"RESOURCE_EXHAUSTED"}, Verdict: "throttled", As: "nothing"},
		{Statuses: []int{403}, From: []string{"body error.details.*.retryDelay"}, Verdict: "throttled", As: "nothing"},
		{From: []string{"body error.details.*.violations.*.quotaMetric", "body error.details.*.violations.*.quota_metric"}, Scope: "user", As: "name"},
		{From: []string{"body error.details.*.violations.*.description"}},
		{From: []string{"body error.status"}},
	}}},
	{spec: spec{Name: "grpc", Waits: []wait{
		{From: "Grpc-Retry-Pushback-Ms", Is: "pushback"},
		{From: "Grpc-Status-Details-Bin", Is: "details"},
	}, Rules: []rule{
		{Statuses: []int{200}, From: []string{"Grpc-Status"}, Is: []string{"8"}, Verdict: "throttled", As: "nothing"},
		{Statuses: []int{200}, From: []string{"Grpc-Status"}, Is: []string{"14"}, Verdict: "failed", As: "nothing"},
		{Statuses: []int{200}, From: []string{"Grpc-Status-Details-Bin"}, Trim: "metric", Scope: "user", As: "name"},
		{Statuses: []int{200}, From: []string{"Grpc-Status-Details-Bin"}, Trim: "subject", Scope: "user", As: "name"},
		{Statuses: []int{200}, From: []string{"Grpc-Status-Details-Bin"}, Trim: "description"},
		{Statuses: []int{200}, From: []string{"Grpc-Message"}},
	}}},
	{spec: spec{Name: "helix", Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "seconds", Scope: "user"},
	}}},
	{spec: spec{Name: "heroku", Hosts: []string{"api.heroku.com"}, Bodies: []int{429}, Limits: []limits{
		{Remaining: "Ratelimit-Remaining", Max: 4500, Window: 3600, Scope: "user"},
	}, Rules: []rule{
		{From: []string{"body id"}, Is: []string{"rate_limit"}, Verdict: "throttled"},
	}}},
	{spec: spec{Name: "httprate", Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "epoch"},
	}}},
	{spec: spec{Name: "jira", Hosts: []string{"*.atlassian.net", "api.atlassian.com"}, Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "date"},
	}, Rules: []rule{
		{From: []string{"Ratelimit-Reason"}, Is: []string{"jira-burst-based"}, Verdict: "throttled", Scope: "route"},
		{From: []string{"Ratelimit-Reason"}, Is: []string{"jira-per-issue-on-write"}, Verdict: "throttled", Scope: "resource"},
		{From: []string{"Ratelimit-Reason"}, Begins: []string{"jira-quota"}, Verdict: "throttled", Scope: "global"},
		{From: []string{"Ratelimit-Reason"}},
	}}},
	{spec: spec{Name: "kong", Limits: []limits{
		{Name: "second", Limit: "X-Ratelimit-Limit-Second", Remaining: "X-Ratelimit-Remaining-Second", Window: 1},
		{Name: "minute", Limit: "X-Ratelimit-Limit-Minute", Remaining: "X-Ratelimit-Remaining-Minute", Window: 60},
		{Name: "hour", Limit: "X-Ratelimit-Limit-Hour", Remaining: "X-Ratelimit-Remaining-Hour", Window: 3600},
		{Name: "day", Limit: "X-Ratelimit-Limit-Day", Remaining: "X-Ratelimit-Remaining-Day", Window: 86400},
		{Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "seconds"},
	}}},
	{spec: spec{Name: "lemlist", Hosts: []string{"api.lemlist.com"}, Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "date", Scope: "user"},
	}}},
	{spec: spec{Name: "litellm", Bodies: []int{4, 503}, Limits: []limits{
		{Name: "requests", Unit: "requests", Limit: "X-Ratelimit-Limit-Requests", Remaining: "X-Ratelimit-Remaining-Requests", Reset: "X-Ratelimit-Reset-Requests", Is: "duration"},
		{Name: "tokens", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens", Remaining: "X-Ratelimit-Remaining-Tokens", Reset: "X-Ratelimit-Reset-Tokens", Is: "duration"},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "Retry-After", Is: "after"},
	}, Rules: []rule{
		{From: []string{"body error.type"}, Is: []string{"budget_exceeded"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"body error.code"}, Is: []string{"budget_exceeded"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body error.code"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body error.type"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
	}}},
	{spec: spec{Name: "meta", Hosts: []string{"graph.facebook.com", "graph.instagram.com"}, Bodies: []int{4, 5}, Limits: []limits{
		{Name: "business-use-case", Unit: "percent", From: "X-Business-Use-Case-Usage", Shape: "usage", Scope: "user"},
		{Name: "app", Unit: "percent", From: "X-App-Usage", Shape: "usage", Scope: "user"},
	}, Rules: []rule{
		{From: []string{"body error.code"}, Is: []string{"4", "17", "32", "613"}, Verdict: "throttled", As: "nothing"},
		{From: []string{"body error.message"}},
	}}},
	{spec: spec{Name: "nginx"}},
	{spec: spec{Name: "notion", Hosts: []string{"api.notion.com"}, Throttles: []int{429, 503, 529}, Bodies: []int{429, 529}, Rules: []rule{
		{From: []string{"body additional_data.rate_limit_reason"}},
		{Statuses: []int{529}, From: []string{"body code"}, Is: []string{"service_overload"}, Scope: "shared"},
		{From: []string{"body code"}},
	}}},
	{spec: spec{Name: "openai", Hosts: []string{"api.openai.com"}, Bodies: []int{429, 503}, Limits: []limits{
		{Name: "requests", Unit: "requests", Limit: "X-Ratelimit-Limit-Requests", Remaining: "X-Ratelimit-Remaining-Requests", Reset: "X-Ratelimit-Reset-Requests", Is: "duration"},
		{Name: "tokens", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens", Remaining: "X-Ratelimit-Remaining-Tokens", Reset: "X-Ratelimit-Reset-Tokens", Is: "duration"},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "Retry-After", Is: "after"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error.code"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body error.type"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"X-Should-Retry"}, Is: []string{"false"}, Permanent: "yes", As: "nothing"},
		{Statuses: []int{408, 409}, From: []string{"X-Should-Retry"}, Is: []string{"true"}, Verdict: "failed", As: "nothing"},
		{From: []string{"body error.code", "body error.type"}},
	}}},
	{spec: spec{Name: "prisjakt", Limits: []limits{
		{Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "ms", Scope: "user"},
	}}},
	{spec: spec{Name: "reddit", Hosts: []string{"oauth.reddit.com", "www.reddit.com"}, Limits: []limits{
		{Remaining: "X-Ratelimit-Remaining", Used: "X-Ratelimit-Used", Reset: "X-Ratelimit-Reset", Is: "seconds", Window: 600, Scope: "user"},
	}}},
	{spec: spec{Name: "salesforce", Hosts: []string{"*.salesforce.com", "*.force.com"}, Bodies: []int{403}, Limits: []limits{
		{Name: "api-usage", Window: 86400, From: "Sforce-Limit-Info", Shape: "used/limit", Scope: "user"},
	}, Rules: []rule{
		{Statuses: []int{403}, From: []string{"body *.errorCode"}, Is: []string{"REQUEST_LIMIT_EXCEEDED"}, Verdict: "throttled"},
	}}},
	{spec: spec{Name: "scaleway", Hosts: []string{"api.scaleway.ai"}, Bodies: []int{429}, Limits: []limits{
		{Name: "requests", Unit: "requests", Limit: "X-Ratelimit-Limit-Requests", Remaining: "X-Ratelimit-Remaining-Requests", Reset: "X-Ratelimit-Reset-Requests", Is: "duration"},
		{Name: "tokens", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens", Remaining: "X-Ratelimit-Remaining-Tokens", Reset: "X-Ratelimit-Reset-Tokens", Is: "duration"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body message"}, Has: []string{"concurrent requests"}, Concurrency: true},
		{Statuses: []int{429}, From: []string{"body error"}, Is: []string{"INSUFFICIENT QUOTA"}, Permanent: "no", As: "nothing"},
		{Statuses: []int{429}, From: []string{"body message"}},
	}}},
	{spec: spec{Name: "shopify", Hosts: []string{"*.myshopify.com"}, Bodies: []int{200, 429}, Limits: []limits{
		{From: "X-Shopify-Shop-Api-Call-Limit", Shape: "used/limit", Scope: "user"},
		{Unit: "points", From: "body extensions.cost", Shape: "shopify", Scope: "user"},
	}, Rules: []rule{
		{Statuses: []int{200, 429}, From: []string{"body errors.*.extensions.code"}, Is: []string{"THROTTLED"}, Verdict: "throttled"},
	}}},
	{spec: spec{Name: "slack", Hosts: []string{"slack.com", "*.slack.com"}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"Retry-After"}, Scope: "route", As: "nothing"},
	}}},
	{spec: spec{Name: "stripe", Hosts: []string{"api.stripe.com"}, Bodies: []int{429}, Rules: []rule{
		{From: []string{"Stripe-Rate-Limited-Reason"}, Is: []string{"global-concurrency"}, Verdict: "throttled", Concurrency: true, Scope: "global"},
		{From: []string{"Stripe-Rate-Limited-Reason"}, Is: []string{"endpoint-concurrency"}, Verdict: "throttled", Concurrency: true, Scope: "route"},
		{From: []string{"Stripe-Rate-Limited-Reason"}, Is: []string{"global-rate"}, Verdict: "throttled", Scope: "global"},
		{From: []string{"Stripe-Rate-Limited-Reason"}, Is: []string{"endpoint-rate"}, Verdict: "throttled", Scope: "route"},
		{From: []string{"Stripe-Rate-Limited-Reason"}, Is: []string{"resource-specific"}, Verdict: "throttled", Scope: "resource"},
		{From: []string{"body error.code"}, Is: []string{"lock_timeout"}, Verdict: "throttled", Concurrency: true, Scope: "resource"},
	}}},
	{spec: spec{Name: "traefik", Waits: []wait{
		{From: "X-Retry-In", Is: "duration"},
		{From: "Retry-After", Is: "after"},
	}}},
	{spec: spec{Name: "vimeo", Hosts: []string{"api.vimeo.com"}, Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "date", Scope: "user"},
	}}},
	{spec: spec{Name: "x", Hosts: []string{"api.x.com", "api.twitter.com"}, Bodies: []int{429}, Limits: []limits{
		{Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "epoch", Scope: "route"},
	}, Rules: []rule{
		{From: []string{"body errors.*.code"}, Is: []string{"88"}, Verdict: "throttled"},
	}}},
	{spec: spec{Name: "zendesk", Hosts: []string{"*.zendesk.com"}, Limits: []limits{
		{Name: "tickets-index", From: "Zendesk-Ratelimit-Tickets-Index", Shape: "pairs", Scope: "route"},
		{Name: "account", Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "seconds", Window: 60, Scope: "user"},
		{Name: "account", Limit: "X-Rate-Limit", Remaining: "X-Rate-Limit-Remaining", Window: 60, Scope: "user"},
	}}},
	{spec: spec{Name: "general", Bodies: []int{429, 503}, Drafts: true, First: true, Limits: []limits{
		{Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "guess"},
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "guess"},
		{Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "guess"},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "X-Ms-Retry-After-Ms", Is: "ms"},
		{From: "Retry-After", Is: "after"},
		{From: "X-Retry-In", Is: "duration"},
		{From: "body error.details.*.retryDelay", Is: "duration"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error.code", "body error.type"}, Is: []string{"insufficient_quota", "budget_exceeded"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"X-Envoy-Ratelimited"}, Verdict: "throttled", As: "nothing"},
		{From: []string{"body type"}, Trim: "fragment", Is: []string{"quota-exceeded", "temporary-reduced-capacity", "abnormal-usage-detected"}, Verdict: "throttled"},
		{From: []string{"body violated-policies.*"}, As: "name"},
	}}},
}
