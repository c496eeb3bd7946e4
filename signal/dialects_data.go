// Code generated from dialects/*.json by 'go test -run Data -update'. DO NOT EDIT.

package signal

// dialects are all of them, the general one last.
var dialects = []*Dialect{
	{spec: spec{Name: "airtable", Hosts: []string{"api.airtable.com"}, Bodies: []int{4}, Rules: []rule{
		{From: []string{"body errors.*.error", "body error.type", "body error"}, Is: []string{"PUBLIC_API_BILLING_LIMIT_EXCEEDED"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body errors.*.error", "body error.type", "body error"}},
		{Statuses: []int{429}, Scope: "user", Wait: 30},
	}}},
	{spec: spec{Name: "akamai", Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Next", Is: "date", Scope: "user"},
	}}},
	{spec: spec{Name: "anthropic", Hosts: []string{"api.anthropic.com"}, Throttles: []int{429, 503, 529}, Bodies: []int{429, 529}, Limits: []limits{
		{Name: "requests", Unit: "requests", Limit: "Anthropic-Ratelimit-Requests-Limit", Remaining: "Anthropic-Ratelimit-Requests-Remaining", Reset: "Anthropic-Ratelimit-Requests-Reset", Is: "date", Refills: true},
		{Name: "tokens", Unit: "tokens", Limit: "Anthropic-Ratelimit-Tokens-Limit", Remaining: "Anthropic-Ratelimit-Tokens-Remaining", Reset: "Anthropic-Ratelimit-Tokens-Reset", Is: "date", Refills: true},
		{Name: "input-tokens", Unit: "tokens", Limit: "Anthropic-Ratelimit-Input-Tokens-Limit", Remaining: "Anthropic-Ratelimit-Input-Tokens-Remaining", Reset: "Anthropic-Ratelimit-Input-Tokens-Reset", Is: "date", Refills: true},
		{Name: "output-tokens", Unit: "tokens", Limit: "Anthropic-Ratelimit-Output-Tokens-Limit", Remaining: "Anthropic-Ratelimit-Output-Tokens-Remaining", Reset: "Anthropic-Ratelimit-Output-Tokens-Reset", Is: "date", Refills: true},
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
		{Name: "global-reads", Remaining: "X-Ms-Ratelimit-Remaining-Subscription-Global-Reads", Scope: "global"},
		{Name: "global-writes", Remaining: "X-Ms-Ratelimit-Remaining-Subscription-Global-Writes", Scope: "global"},
		{Name: "tenant-reads", Remaining: "X-Ms-Ratelimit-Remaining-Tenant-Reads", Scope: "user"},
		{Name: "tenant-writes", Remaining: "X-Ms-Ratelimit-Remaining-Tenant-Writes", Scope: "user"},
		{From: "X-Ms-Ratelimit-Remaining-Resource", Shape: "azure", Scope: "resource"},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "X-Ms-Retry-After-Ms", Is: "ms"},
		{From: "Retry-After", Is: "after"},
	}, Rules: []rule{
		{Statuses: []int{409, 429}, From: []string{"body error.code", "body error.details.*.code"}, Is: []string{"RetryableErrorDueToAnotherOperation"}, Verdict: "throttled", Concurrency: true, Scope: "resource"},
		{From: []string{"body error.code"}},
	}}},
	{spec: spec{Name: "bigcommerce", Hosts: []string{"api.bigcommerce.com"}, Limits: []limits{
		{Limit: "X-Rate-Limit-Requests-Quota", Remaining: "X-Rate-Limit-Requests-Left", Reset: "X-Rate-Limit-Time-Reset-Ms", Is: "ms", WindowFrom: "X-Rate-Limit-Time-Window-Ms", WindowIs: "ms", Scope: "user"},
	}}},
	{spec: spec{Name: "binance", Hosts: []string{"api.binance.com", "*.binance.com"}, Throttles: []int{418, 429, 503}, Bodies: []int{4}, Rules: []rule{
		{From: []string{"body code"}, Is: []string{"-1003", "-1015"}, Verdict: "throttled", Scope: "global", As: "nothing"},
		{Statuses: []int{418, 429}, Scope: "global"},
		{From: []string{"body msg"}},
	}}},
	{spec: spec{Name: "bitbucket", Hosts: []string{"api.bitbucket.org"}, Bodies: []int{429}, Limits: []limits{
		{NameFrom: "X-Ratelimit-Resource", Limit: "X-Ratelimit-Limit", Window: 3600, Scope: "resource"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error.message"}},
		{Statuses: []int{429}, Scope: "user", Wait: 60},
	}}},
	{spec: spec{Name: "cerebras", Hosts: []string{"api.cerebras.ai"}, Limits: []limits{
		{Name: "requests-day", Unit: "requests", Limit: "X-Ratelimit-Limit-Requests-Day", Remaining: "X-Ratelimit-Remaining-Requests-Day", Reset: "X-Ratelimit-Reset-Requests-Day", Is: "seconds", Window: 86400},
		{Name: "tokens-minute", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens-Minute", Remaining: "X-Ratelimit-Remaining-Tokens-Minute", Reset: "X-Ratelimit-Reset-Tokens-Minute", Is: "seconds", Window: 60},
		{Name: "tokens-day", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens-Day", Remaining: "X-Ratelimit-Remaining-Tokens-Day", Reset: "X-Ratelimit-Reset-Tokens-Day", Is: "seconds", Window: 86400},
	}}},
	{spec: spec{Name: "cloudflare", Hosts: []string{"api.cloudflare.com"}, Drafts: true, Scope: "user", Rules: []rule{
		{Statuses: []int{429}, From: []string{"Retry-After"}, Scope: "user", As: "nothing"},
	}}},
	{spec: spec{Name: "contentful", Hosts: []string{"*.contentful.com"}, Limits: []limits{
		{Name: "second", Limit: "X-Contentful-Ratelimit-Second-Limit", Remaining: "X-Contentful-Ratelimit-Second-Remaining", Window: 1, Scope: "user"},
		{Name: "hour", Limit: "X-Contentful-Ratelimit-Hour-Limit", Remaining: "X-Contentful-Ratelimit-Hour-Remaining", Window: 3600, Scope: "user"},
	}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "X-Contentful-Ratelimit-Reset", Is: "seconds"},
	}}},
	{spec: spec{Name: "datadog", Hosts: []string{"*.datadoghq.com", "*.datadoghq.eu"}, Limits: []limits{
		{NameFrom: "X-Ratelimit-Name", Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "seconds", WindowFrom: "X-Ratelimit-Period", WindowIs: "seconds", Scope: "route"},
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
	{spec: spec{Name: "docker", Hosts: []string{"registry-1.docker.io", "index.docker.io", "auth.docker.io", "hub.docker.com"}, Bodies: []int{429}, Limits: []limits{
		{Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Scope: "user"},
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "epoch", Scope: "user"},
	}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "X-Retry-After", Is: "after"},
	}, Rules: []rule{
		{From: []string{"body errors.*.code"}},
	}}},
	{spec: spec{Name: "dropbox", Hosts: []string{"*.dropboxapi.com"}, Bodies: []int{429}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "body error.retry_after", Is: "seconds"},
	}, Rules: []rule{
		{From: []string{"body error_summary"}, Begins: []string{"too_many_write_operations"}, Concurrency: true, Scope: "resource"},
		{From: []string{"body error_summary"}, Begins: []string{"too_many_requests"}, Scope: "user"},
		{From: []string{"body error_summary"}},
	}}},
	{spec: spec{Name: "envoy", Drafts: true, First: true, Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "seconds"},
		{Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "seconds"},
	}, Rules: []rule{
		{From: []string{"X-Envoy-Ratelimited"}, Verdict: "throttled", As: "nothing"},
	}}},
	{spec: spec{Name: "etsy", Hosts: []string{"openapi.etsy.com", "api.etsy.com"}, Bodies: []int{429}, Limits: []limits{
		{Name: "second", Limit: "X-Limit-Per-Second", Remaining: "X-Remaining-This-Second", Window: 1, Scope: "user"},
		{Name: "day", Limit: "X-Limit-Per-Day", Remaining: "X-Remaining-Today", Window: 86400, Scope: "user"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error"}},
	}}},
	{spec: spec{Name: "github", Hosts: []string{"api.github.com", "*.ghe.com"}, Bodies: []int{200, 403, 429}, Limits: []limits{
		{NameFrom: "X-Ratelimit-Resource", Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Used: "X-Ratelimit-Used", Reset: "X-Ratelimit-Reset", Is: "epoch", Scope: "resource"},
	}, Rules: []rule{
		{Statuses: []int{200}, From: []string{"body errors.*.type", "body errors.*.code"}, Is: []string{"RATE_LIMITED", "RATE_LIMIT", "graphql_rate_limit"}, Verdict: "throttled", Wait: 60},
		{Statuses: []int{200}, From: []string{"body errors.*.message"}, Begins: []string{"You have exceeded a secondary rate limit"}, Verdict: "throttled", Scope: "user", Wait: 60},
		{Statuses: []int{403, 429}, From: []string{"body message"}, Begins: []string{"You have exceeded a secondary rate limit"}, Verdict: "throttled", Scope: "user", Wait: 60},
		{Statuses: []int{403, 429}, From: []string{"body documentation_url"}, Ends: []string{"secondary-rate-limits", "#abuse-rate-limits"}, Verdict: "throttled", Scope: "user", Wait: 60, As: "nothing"},
		{Statuses: []int{403, 429}, From: []string{"body message"}, Has: []string{"rate limit exceeded", "rate limit already exceeded", "secondary rate limit", "abuse detection"}, Verdict: "throttled"},
		{Statuses: []int{403}, From: []string{"Retry-After"}, Verdict: "throttled", As: "nothing"},
		{Statuses: []int{403}, From: []string{"body message"}, Verdict: "served"},
		{Statuses: []int{403}, Empty: true, Verdict: "throttled"},
		{Statuses: []int{429}, From: []string{"body message"}},
	}}},
	{spec: spec{Name: "gitlab", Hosts: []string{"gitlab.com"}, Limits: []limits{
		{NameFrom: "Ratelimit-Name", Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Used: "Ratelimit-Observed", Reset: "Ratelimit-Reset", Is: "epoch", Window: 60, Scope: "route"},
	}}},
	{spec: spec{Name: "gohighlevel", Hosts: []string{"services.leadconnectorhq.com"}, Limits: []limits{
		{Name: "day", Limit: "X-Ratelimit-Limit-Daily", Remaining: "X-Ratelimit-Daily-Remaining", Window: 86400, Scope: "user"},
		{Name: "burst", Limit: "X-Ratelimit-Max", Remaining: "X-Ratelimit-Remaining", WindowFrom: "X-Ratelimit-Interval-Milliseconds", WindowIs: "ms", Scope: "user"},
	}}},
	{spec: spec{Name: "google", Hosts: []string{"*.googleapis.com"}, Bodies: []int{403, 429, 503}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "body error.details.*.retryDelay", Is: "duration"},
	}, Rules: []rule{
		{Statuses: []int{403, 429}, From: []string{"body error.errors.*.reason", "body error.details.*.reason"}, Is: []string{"dailyLimitExceeded", "dailyLimitExceededUnreg", "quotaExceeded", "DAILY_LIMIT_EXCEEDED"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{403, 429}, From: []string{"body error.details.*.violations.*.quotaId"}, Has: []string{"PerDay"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{403, 429}, From: []string{"body error.details.*.metadata.quota_unit"}, Begins: []string{"1/d/"}, Verdict: "served", Permanent: "yes", As: "nothing"},
		{Statuses: []int{403, 429}, From: []string{"body error.details.*.metadata.quota_limit_value"}, Is: []string{"0"}, Verdict: "served", Permanent: "yes", As: "nothing"},
		{Statuses: []int{403, 429}, From: []string{"body error.errors.*.reason", "body error.details.*.reason"}, Is: []string{"rateLimitExceeded", "rateLimitExceededUnreg", "RATE_LIMIT_EXCEEDED"}, Verdict: "throttled"},
		{Statuses: []int{403, 429}, From: []string{"body error.errors.*.reason"}, Is: []string{"userRateLimitExceeded", "userRateLimitExceededUnreg"}, Verdict: "throttled", Scope: "user"},
		{Statuses: []int{403, 429}, From: []string{"body error.status"}, Is: []string{"RESOURCE_EXHAUSTED"}, Verdict: "throttled", As: "nothing"},
		{Statuses: []int{403}, From: []string{"body error.details.*.retryDelay"}, Verdict: "throttled", As: "nothing"},
		{From: []string{"body error.details.*.violations.*.quotaMetric", "body error.details.*.violations.*.quota_metric"}, Scope: "user", As: "name"},
		{From: []string{"body error.details.*.violations.*.description"}},
		{From: []string{"body error.status"}},
	}}},
	{spec: spec{Name: "googlemaps", Hosts: []string{"maps.googleapis.com"}, Bodies: []int{200, 403, 429, 503}, Rules: []rule{
		{Statuses: []int{200, 403, 429}, From: []string{"body error_message"}, Has: []string{"daily request quota"}, Verdict: "served", Permanent: "yes", As: "nothing"},
		{Statuses: []int{200, 403, 429}, From: []string{"body status"}, Is: []string{"OVER_DAILY_LIMIT"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{200, 403, 429}, From: []string{"body status"}, Is: []string{"OVER_QUERY_LIMIT"}, Verdict: "throttled", Scope: "user", Wait: 2},
	}}},
	{spec: spec{Name: "graphql", Bodies: []int{200, 4, 5}, Drafts: true, First: true, Limits: []limits{
		{Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "guess"},
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Used: "X-Ratelimit-Used", Reset: "X-Ratelimit-Reset", Is: "guess"},
		{Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "guess"},
	}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "body errors.*.extensions.retryAfter", Is: "after"},
		{From: "body errors.*.extensions.retry_in_seconds", Is: "after"},
	}, Rules: []rule{
		{Statuses: []int{200, 400, 403, 422, 429, 500, 503}, From: []string{"body errors.*.extensions.code", "body errors.*.type", "body errors.*.code", "body errors.*.extensions.type"}, Trim: "word", Is: []string{"insufficientquota", "budgetexceeded", "billinghardlimitreached", "billinglimitexceeded", "dailylimitexceeded", "dailyquotaexceeded", "monthlylimitexceeded", "monthlyquotaexceeded", "usagecapexceeded", "quotaexhausted", "creditsexhausted", "insufficientcredits", "insufficientbalance", "outofcredits", "exceededcurrentquotaerror", "spendinglimitreached", "planlimitreached", "planlimitexceeded"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{200, 400, 403, 422, 429, 500, 503}, From: []string{"body errors.*.extensions.code", "body errors.*.type", "body errors.*.code", "body errors.*.extensions.type"}, Trim: "word", Is: []string{"toomanyconcurrentrequests", "toomanyconnections", "concurrencylimitexceeded", "concurrentlimitexceeded", "concurrentrequestlimitexceeded", "maxconcurrencyexceeded"}, Verdict: "throttled", Concurrency: true},
		{Statuses: []int{200, 400, 403, 422, 429, 500, 503}, From: []string{"body errors.*.extensions.code", "body errors.*.type", "body errors.*.code", "body errors.*.extensions.type"}, Trim: "word", Is: []string{"ratelimit", "ratelimited", "ratelimiting", "ratelimiterror", "ratelimitingerror", "ratelimitederror", "ratelimitexceeded", "ratelimitexceedederror", "ratelimitexceededexception", "ratelimitreached", "exceededratelimit", "rateexceeded", "requestrateexceeded", "requestratelimitexceeded", "requestratetoolarge", "userratelimitexceeded", "apiratelimitexceeded", "ipratelimitexceeded", "toomanyrequest", "toomanyrequests", "toomanyrequestserror", "toomanyrequestsexception", "toomanyrequestspersecond", "requestlimitexceeded", "requestlimitreached", "throttle", "throttled", "throttling", "throttlederror", "throttlingerror", "throttledexception", "throttlingexception", "requestthrottled", "requestthrottledexception", "throttleviolation", "slowdown", "provisionedthroughputexceededexception", "resourceexhausted", "complexitybudgetexhausted"}, Verdict: "throttled"},
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
	{spec: spec{Name: "hubspot", Hosts: []string{"api.hubapi.com", "api.hubspot.com"}, Bodies: []int{429}, Limits: []limits{
		{Name: "day", Limit: "X-Hubspot-Ratelimit-Daily", Remaining: "X-Hubspot-Ratelimit-Daily-Remaining", Window: 86400, Scope: "global"},
		{Name: "interval", Limit: "X-Hubspot-Ratelimit-Max", Remaining: "X-Hubspot-Ratelimit-Remaining", WindowFrom: "X-Hubspot-Ratelimit-Interval-Milliseconds", WindowIs: "ms", Scope: "user"},
		{Name: "second", Limit: "X-Hubspot-Ratelimit-Secondly", Remaining: "X-Hubspot-Ratelimit-Secondly-Remaining", Window: 1, Scope: "user"},
	}, Rules: []rule{
		{From: []string{"body policyName"}, Is: []string{"DAILY"}, Scope: "global", Wait: 3600},
		{From: []string{"body policyName"}, Begins: []string{"TEN_SECONDLY"}, Scope: "user", Wait: 10},
		{From: []string{"body policyName"}, Begins: []string{"SECONDLY"}, Scope: "user", Wait: 1},
		{From: []string{"body message"}},
	}}},
	{spec: spec{Name: "imgur", Hosts: []string{"api.imgur.com"}, Limits: []limits{
		{Name: "user", Limit: "X-Ratelimit-Userlimit", Remaining: "X-Ratelimit-Userremaining", Reset: "X-Ratelimit-Userreset", Is: "epoch", Scope: "user"},
		{Name: "client-day", Limit: "X-Ratelimit-Clientlimit", Remaining: "X-Ratelimit-Clientremaining", Window: 86400, Scope: "global"},
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
	{spec: spec{Name: "kraken", Hosts: []string{"api.kraken.com"}, Bodies: []int{200}, Rules: []rule{
		{Statuses: []int{200}, From: []string{"body error.*"}, Is: []string{"EAPI:Rate limit exceeded", "EGeneral:Temporary lockout"}, Verdict: "throttled", Scope: "user"},
		{Statuses: []int{200}, From: []string{"body error.*"}, Is: []string{"EOrder:Rate limit exceeded"}, Verdict: "throttled", Scope: "resource"},
		{Statuses: []int{200}, From: []string{"body error.*"}, Begins: []string{"EService: Throttled", "EService:Throttled"}, Verdict: "throttled", Concurrency: true, Scope: "user"},
	}}},
	{spec: spec{Name: "lemlist", Hosts: []string{"api.lemlist.com"}, Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "date", Scope: "user"},
	}}},
	{spec: spec{Name: "linear", Hosts: []string{"api.linear.app"}, Bodies: []int{200, 4}, Limits: []limits{
		{Name: "requests", Limit: "X-Ratelimit-Requests-Limit", Remaining: "X-Ratelimit-Requests-Remaining", Reset: "X-Ratelimit-Requests-Reset", Is: "epoch", Scope: "user"},
		{Name: "endpoint", Limit: "X-Ratelimit-Endpoint-Requests-Limit", Remaining: "X-Ratelimit-Endpoint-Requests-Remaining", Reset: "X-Ratelimit-Endpoint-Requests-Reset", Is: "epoch", Scope: "route"},
		{Name: "complexity", Unit: "points", Limit: "X-Ratelimit-Complexity-Limit", Remaining: "X-Ratelimit-Complexity-Remaining", Reset: "X-Ratelimit-Complexity-Reset", Is: "epoch", Scope: "user"},
	}, Rules: []rule{
		{Statuses: []int{200, 400, 429}, From: []string{"body errors.*.extensions.code"}, Is: []string{"RATELIMITED"}, Verdict: "throttled"},
	}}},
	{spec: spec{Name: "linkedin", Hosts: []string{"api.linkedin.com"}, Bodies: []int{429}, Rules: []rule{
		{From: []string{"body message"}, Has: []string{"DAY limit"}, Scope: "user", Until: "midnight"},
		{From: []string{"body message"}},
	}}},
	{spec: spec{Name: "litellm", Bodies: []int{4, 503}, Limits: []limits{
		{Name: "requests", Unit: "requests", Limit: "X-Ratelimit-Limit-Requests", Remaining: "X-Ratelimit-Remaining-Requests", Reset: "X-Ratelimit-Reset-Requests", Is: "duration"},
		{Name: "tokens", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens", Remaining: "X-Ratelimit-Remaining-Tokens", Reset: "X-Ratelimit-Reset-Tokens", Is: "duration"},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "Retry-After", Is: "after"},
		{From: "body error.message", Is: "words"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error.message"}, Has: []string{"Request too large for"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"body error.type"}, Is: []string{"budget_exceeded"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"body error.code"}, Is: []string{"budget_exceeded"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body error.code"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body error.type"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
	}}},
	{spec: spec{Name: "mailchimp", Hosts: []string{"*.api.mailchimp.com"}, Bodies: []int{4}, Rules: []rule{
		{From: []string{"body title", "body name"}, Trim: "word", Is: []string{"toomanyrequests", "toomanyconnections"}, Verdict: "throttled", Concurrency: true, Scope: "user"},
		{Statuses: []int{429}, Concurrency: true, Scope: "user"},
		{Statuses: []int{429}, From: []string{"body title"}},
	}}},
	{spec: spec{Name: "marketo", Hosts: []string{"*.mktorest.com"}, Bodies: []int{200}, Rules: []rule{
		{Statuses: []int{200}, From: []string{"body errors.*.code"}, Is: []string{"606"}, Verdict: "throttled", Scope: "user", Wait: 20, As: "nothing"},
		{Statuses: []int{200}, From: []string{"body errors.*.code"}, Is: []string{"607"}, Verdict: "served", Permanent: "yes", Scope: "global", As: "nothing"},
		{Statuses: []int{200}, From: []string{"body errors.*.code"}, Is: []string{"615"}, Verdict: "throttled", Concurrency: true, Scope: "user", As: "nothing"},
		{Statuses: []int{200}, From: []string{"body errors.*.message"}},
	}}},
	{spec: spec{Name: "mediawiki", Hosts: []string{"*.wikipedia.org", "*.wikimedia.org", "www.wikidata.org", "www.mediawiki.org"}, Bodies: []int{200}, Rules: []rule{
		{Statuses: []int{200}, From: []string{"Mediawiki-Api-Error"}, Is: []string{"ratelimited", "actionthrottledtext"}, Verdict: "throttled", Scope: "user"},
		{Statuses: []int{200}, From: []string{"Mediawiki-Api-Error"}, Is: []string{"maxlag"}, Verdict: "throttled", Scope: "shared"},
		{Statuses: []int{200}, From: []string{"body error.code"}, Is: []string{"ratelimited", "actionthrottledtext"}, Verdict: "throttled", Scope: "user"},
		{Statuses: []int{200}, From: []string{"body error.code"}, Is: []string{"maxlag"}, Verdict: "throttled", Scope: "shared"},
	}}},
	{spec: spec{Name: "meta", Hosts: []string{"graph.facebook.com", "graph.instagram.com"}, Bodies: []int{4, 5}, Limits: []limits{
		{Name: "business-use-case", Unit: "percent", From: "X-Business-Use-Case-Usage", Shape: "usage", Scope: "user"},
		{Name: "app", Unit: "percent", From: "X-App-Usage", Shape: "usage", Scope: "user"},
	}, Rules: []rule{
		{From: []string{"body error.code"}, Is: []string{"4", "17", "32", "613", "80000", "80001", "80002", "80003", "80004", "80005", "80006", "80007", "80008", "80009", "80010", "80011", "80012", "80013", "80014", "130429", "131056"}, Verdict: "throttled", As: "nothing"},
		{From: []string{"body error.message"}},
	}}},
	{spec: spec{Name: "monday", Hosts: []string{"api.monday.com"}, Bodies: []int{200, 4, 5}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "body errors.*.extensions.retry_in_seconds", Is: "after"},
		{From: "body error_data.retry_in_seconds", Is: "after"},
	}, Rules: []rule{
		{Statuses: []int{200, 400, 403, 422, 429, 500, 503}, From: []string{"body errors.*.extensions.code", "body error_code"}, Is: []string{"DAILY_LIMIT_EXCEEDED"}, Verdict: "throttled", Scope: "global", Until: "midnight"},
		{Statuses: []int{200, 400, 403, 422, 429, 500, 503}, From: []string{"body errors.*.extensions.code", "body error_code"}, Trim: "word", Is: []string{"maxconcurrencyexceeded", "concurrencylimitexceeded"}, Verdict: "throttled", Concurrency: true, Scope: "user"},
		{Statuses: []int{200, 400, 403, 422, 429, 500, 503}, From: []string{"body errors.*.extensions.code", "body error_code"}, Trim: "word", Is: []string{"complexitybudgetexhausted", "complexityexception", "ratelimitexceeded", "ipratelimitexceeded", "minutelimitexceeded"}, Verdict: "throttled", Scope: "user"},
	}}},
	{spec: spec{Name: "nginx", Plain: true}},
	{spec: spec{Name: "notion", Hosts: []string{"api.notion.com"}, Throttles: []int{429, 503, 529}, Bodies: []int{429, 529}, Rules: []rule{
		{From: []string{"body additional_data.rate_limit_reason"}},
		{Statuses: []int{529}, From: []string{"body code"}, Is: []string{"service_overload"}, Scope: "shared"},
		{From: []string{"body code"}},
	}}},
	{spec: spec{Name: "okta", Hosts: []string{"*.okta.com", "*.oktapreview.com", "*.okta-emea.com"}, Limits: []limits{
		{Zero: "concurrent-requests", Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "epoch", Scope: "route"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"X-Rate-Limit-Limit"}, Is: []string{"0"}, Concurrency: true, Scope: "global", As: "nothing"},
	}}},
	{spec: spec{Name: "openai", Hosts: []string{"api.openai.com", "*.openai.azure.com", "api.groq.com"}, Bodies: []int{429, 503}, Limits: []limits{
		{Name: "requests", Unit: "requests", Limit: "X-Ratelimit-Limit-Requests", Remaining: "X-Ratelimit-Remaining-Requests", Reset: "X-Ratelimit-Reset-Requests", Is: "duration", Refills: true},
		{Name: "tokens", Unit: "tokens", Limit: "X-Ratelimit-Limit-Tokens", Remaining: "X-Ratelimit-Remaining-Tokens", Reset: "X-Ratelimit-Reset-Tokens", Is: "duration", Refills: true},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "Retry-After", Is: "after"},
		{From: "body error.message", Is: "words"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error.message"}, Has: []string{"Request too large for"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body error.code"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{429}, From: []string{"body error.type"}, Is: []string{"insufficient_quota"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"body error.code", "body error.type"}},
	}}},
	{spec: spec{Name: "pathofexile", Hosts: []string{"www.pathofexile.com", "api.pathofexile.com"}, Limits: []limits{
		{Name: "account", Used: "X-Rate-Limit-Account-State", From: "X-Rate-Limit-Account", Shape: "windows", Scope: "user"},
		{Name: "client", Used: "X-Rate-Limit-Client-State", From: "X-Rate-Limit-Client", Shape: "windows", Scope: "user"},
		{Name: "ip", Used: "X-Rate-Limit-Ip-State", From: "X-Rate-Limit-Ip", Shape: "windows", Scope: "global"},
	}, Rules: []rule{
		{From: []string{"X-Rate-Limit-Policy"}, As: "name"},
	}}},
	{spec: spec{Name: "pipedrive", Hosts: []string{"api.pipedrive.com", "*.pipedrive.com"}, Limits: []limits{
		{Name: "burst", Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "seconds", Window: 2, Scope: "user"},
		{Name: "day", Remaining: "X-Daily-Requests-Left", Window: 86400, Aligned: true, Scope: "user"},
	}}},
	{spec: spec{Name: "prisjakt", Limits: []limits{
		{Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "ms", Scope: "user"},
	}}},
	{spec: spec{Name: "reddit", Hosts: []string{"oauth.reddit.com", "www.reddit.com"}, Limits: []limits{
		{Remaining: "X-Ratelimit-Remaining", Used: "X-Ratelimit-Used", Reset: "X-Ratelimit-Reset", Is: "seconds", Window: 600, Scope: "user"},
	}}},
	{spec: spec{Name: "riot", Hosts: []string{"*.api.riotgames.com"}, Limits: []limits{
		{Name: "app", Used: "X-App-Rate-Limit-Count", From: "X-App-Rate-Limit", Shape: "windows", Scope: "user"},
		{Name: "method", Used: "X-Method-Rate-Limit-Count", From: "X-Method-Rate-Limit", Shape: "windows", Scope: "route"},
	}, Rules: []rule{
		{From: []string{"X-Rate-Limit-Type"}, Is: []string{"application", "user"}, Scope: "user"},
		{From: []string{"X-Rate-Limit-Type"}, Is: []string{"method"}, Scope: "route"},
		{From: []string{"X-Rate-Limit-Type"}, Is: []string{"service"}, Scope: "shared"},
	}}},
	{spec: spec{Name: "salesforce", Hosts: []string{"*.salesforce.com", "*.force.com"}, Bodies: []int{403, 503}, Limits: []limits{
		{Name: "api-usage", Window: 86400, From: "Sforce-Limit-Info", Shape: "used/limit", Scope: "user"},
	}, Rules: []rule{
		{Statuses: []int{403, 503}, From: []string{"body *.message"}, Begins: []string{"Concurrent"}, Verdict: "throttled", Concurrency: true, Scope: "user"},
		{Statuses: []int{403}, From: []string{"body *.message"}, Begins: []string{"TotalRequests"}, Wait: 3600, As: "nothing"},
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
	{spec: spec{Name: "slack", Hosts: []string{"slack.com", "*.slack.com"}, Bodies: []int{200}, Rules: []rule{
		{Statuses: []int{200}, From: []string{"body error"}, Is: []string{"ratelimited", "rate_limited"}, Verdict: "throttled", Scope: "route"},
		{Statuses: []int{429}, From: []string{"Retry-After"}, Scope: "route", As: "nothing"},
	}}},
	{spec: spec{Name: "stackexchange", Hosts: []string{"api.stackexchange.com"}, Bodies: []int{200, 400, 502, 503}, Limits: []limits{
		{Name: "day", Limit: "body quota_max", Remaining: "body quota_remaining", Window: 86400, Scope: "user"},
	}, Waits: []wait{
		{From: "Retry-After", Is: "after"},
		{From: "body error_message", Is: "words"},
	}, Rules: []rule{
		{Statuses: []int{400, 502, 503}, From: []string{"body error_name"}, Is: []string{"throttle_violation"}, Verdict: "throttled", Scope: "global", Wait: 60},
		{From: []string{"body error_name"}},
	}}},
	{spec: spec{Name: "strava", Hosts: []string{"www.strava.com"}, Limits: []limits{
		{Name: "read", Limit: "X-Readratelimit-Limit", Used: "X-Readratelimit-Usage", Windows: []int64{900, 86400}, Aligned: true, Scope: "user"},
		{Name: "all", Limit: "X-Ratelimit-Limit", Used: "X-Ratelimit-Usage", Windows: []int64{900, 86400}, Aligned: true, Scope: "user"},
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
	{spec: spec{Name: "trello", Hosts: []string{"api.trello.com"}, Bodies: []int{429}, Limits: []limits{
		{Name: "token", Limit: "X-Rate-Limit-Api-Token-Max", Remaining: "X-Rate-Limit-Api-Token-Remaining", WindowFrom: "X-Rate-Limit-Api-Token-Interval-Ms", WindowIs: "ms", Scope: "user"},
		{Name: "key", Limit: "X-Rate-Limit-Api-Key-Max", Remaining: "X-Rate-Limit-Api-Key-Remaining", WindowFrom: "X-Rate-Limit-Api-Key-Interval-Ms", WindowIs: "ms", Scope: "global"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body error"}, Wait: 10},
	}}},
	{spec: spec{Name: "twilio", Hosts: []string{"*.twilio.com"}, Bodies: []int{4}, Rules: []rule{
		{From: []string{"body code"}, Is: []string{"20429"}, Verdict: "throttled", Concurrency: true, Scope: "user", As: "nothing"},
		{From: []string{"body code"}, Is: []string{"45780"}, Verdict: "throttled", Concurrency: true, Scope: "route", As: "nothing"},
		{Statuses: []int{429}, From: []string{"body message"}},
	}}},
	{spec: spec{Name: "vimeo", Hosts: []string{"api.vimeo.com"}, Limits: []limits{
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset", Is: "date", Scope: "user"},
	}}},
	{spec: spec{Name: "x", Hosts: []string{"api.x.com", "api.twitter.com"}, Bodies: []int{4}, Limits: []limits{
		{Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "epoch", Scope: "route"},
		{Name: "user-24hour", Limit: "X-User-Limit-24hour-Limit", Remaining: "X-User-Limit-24hour-Remaining", Reset: "X-User-Limit-24hour-Reset", Is: "epoch", Window: 86400, Scope: "user"},
		{Name: "app-24hour", Limit: "X-App-Limit-24hour-Limit", Remaining: "X-App-Limit-24hour-Remaining", Reset: "X-App-Limit-24hour-Reset", Is: "epoch", Window: 86400, Scope: "global"},
	}, Rules: []rule{
		{From: []string{"body title"}, Is: []string{"UsageCapExceeded"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"body type"}, Ends: []string{"/problems/usage-capped"}, Verdict: "served", Permanent: "yes", As: "nothing"},
		{From: []string{"body errors.*.code"}, Is: []string{"88"}, Verdict: "throttled"},
	}}},
	{spec: spec{Name: "xero", Hosts: []string{"api.xero.com"}, Limits: []limits{
		{Name: "day", Remaining: "X-Daylimit-Remaining", Window: 86400, Scope: "user"},
		{Name: "minute", Remaining: "X-Minlimit-Remaining", Window: 60, Scope: "user"},
		{Name: "app-minute", Remaining: "X-Appminlimit-Remaining", Window: 60, Scope: "global"},
	}, Rules: []rule{
		{From: []string{"X-Rate-Limit-Problem"}, Begins: []string{"concurrent", "Concurrent"}, Concurrency: true, Scope: "user"},
		{From: []string{"X-Rate-Limit-Problem"}, Has: []string{"day", "Day"}, Scope: "user", Wait: 3600},
		{From: []string{"X-Rate-Limit-Problem"}},
	}}},
	{spec: spec{Name: "yelp", Hosts: []string{"api.yelp.com"}, Bodies: []int{429}, Limits: []limits{
		{Name: "day", Limit: "Ratelimit-Dailylimit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Resettime", Is: "date", Window: 86400, Scope: "user"},
		{Name: "resource-day", Limit: "Ratelimit-Resourcedailylimit", Remaining: "Ratelimit-Resourceremaining", Window: 86400, Aligned: true, Scope: "route"},
	}, Rules: []rule{
		{From: []string{"body error.code"}, Is: []string{"ACCESS_LIMIT_REACHED"}, Scope: "user", Until: "midnight"},
		{From: []string{"body error.code"}, Is: []string{"TOO_MANY_REQUESTS_PER_SECOND"}, Scope: "route"},
	}}},
	{spec: spec{Name: "zendesk", Hosts: []string{"*.zendesk.com"}, Limits: []limits{
		{Name: "tickets-index", From: "Zendesk-Ratelimit-Tickets-Index", Shape: "pairs", Scope: "route"},
		{Name: "account", Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "seconds", Window: 60, Scope: "user"},
		{Name: "account", Limit: "X-Rate-Limit", Remaining: "X-Rate-Limit-Remaining", Window: 60, Scope: "user"},
	}}},
	{spec: spec{Name: "zoom", Hosts: []string{"api.zoom.us"}, Bodies: []int{429}, Limits: []limits{
		{NameFrom: "X-Ratelimit-Category", Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Scope: "user"},
	}, Rules: []rule{
		{From: []string{"X-Ratelimit-Type"}, Begins: []string{"Daily", "daily"}, Scope: "user", Until: "midnight"},
		{From: []string{"body message"}, Has: []string{"daily rate limit"}, Scope: "user", Until: "midnight"},
		{From: []string{"body message"}},
	}}},
	{spec: spec{Name: "general", Throttles: []int{420, 429, 503, 529}, Bodies: []int{4, 5}, Drafts: true, First: true, Limits: []limits{
		{Name: "second", Beside: true, Limit: "X-Ratelimit-Limit-Second", Remaining: "X-Ratelimit-Remaining-Second", Window: 1},
		{Name: "minute", Beside: true, Limit: "X-Ratelimit-Limit-Minute", Remaining: "X-Ratelimit-Remaining-Minute", Window: 60},
		{Name: "hour", Beside: true, Limit: "X-Ratelimit-Limit-Hour", Remaining: "X-Ratelimit-Remaining-Hour", Window: 3600},
		{Name: "day", Beside: true, Limit: "X-Ratelimit-Limit-Day", Remaining: "X-Ratelimit-Remaining-Day", Window: 86400},
		{Beside: true, Limit: "Ratelimit-Limit", Remaining: "Ratelimit-Remaining", Reset: "Ratelimit-Reset", Is: "guess"},
		{Limit: "X-Ratelimit-Limit", Remaining: "X-Ratelimit-Remaining", Used: "X-Ratelimit-Used", Reset: "X-Ratelimit-Reset", Is: "guess"},
		{Name: "short", Beside: true, Limit: "X-Ratelimit-Limit-Short", Remaining: "X-Ratelimit-Remaining-Short", Reset: "X-Ratelimit-Reset-Short", Is: "guess"},
		{Name: "medium", Beside: true, Limit: "X-Ratelimit-Limit-Medium", Remaining: "X-Ratelimit-Remaining-Medium", Reset: "X-Ratelimit-Reset-Medium", Is: "guess"},
		{Name: "long", Beside: true, Limit: "X-Ratelimit-Limit-Long", Remaining: "X-Ratelimit-Remaining-Long", Reset: "X-Ratelimit-Reset-Long", Is: "guess"},
		{Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", Is: "guess"},
	}, Waits: []wait{
		{From: "Retry-After-Ms", Is: "ms"},
		{From: "X-Ms-Retry-After-Ms", Is: "ms"},
		{From: "X-Rate-Limit-Retry-After-Milliseconds", Is: "ms"},
		{From: "Retry-After", Is: "after"},
		{From: "Retry-After-Short", Is: "after"},
		{From: "Retry-After-Medium", Is: "after"},
		{From: "Retry-After-Long", Is: "after"},
		{From: "X-Retry-In", Is: "duration"},
		{From: "X-Retry-After", Is: "after"},
		{From: "X-Ratelimit-Retry-After", Is: "after"},
		{From: "X-Rate-Limit-Retry-After-Seconds", Is: "seconds"},
		{From: "body retry_after", Is: "after"},
		{From: "body retryAfter", Is: "after"},
		{From: "body error.retry_after", Is: "after"},
		{From: "body error.retryAfter", Is: "after"},
		{From: "body parameters.retry_after", Is: "after"},
		{From: "body errors.*.extensions.retry_in_seconds", Is: "after"},
		{From: "body error.details.*.retryDelay", Is: "after"},
		{From: "body details.*.retryDelay", Is: "after"},
		{From: "body details.*.debug.retryDelay", Is: "after"},
		{From: "body message", Is: "words"},
		{From: "body error", Is: "words"},
		{From: "body error.message", Is: "words"},
		{From: "body error_message", Is: "words"},
		{From: "body detail", Is: "words"},
		{From: "body description", Is: "words"},
		{From: "body msg", Is: "words"},
	}, Rules: []rule{
		{Statuses: []int{429}, From: []string{"body message"}, Has: []string{"is larger than configured max", "exceeds sendMaxBytes", "byte http.MaxBytesReader limit"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"body error.code", "body error.type", "body error.status", "body error.reason", "body error.errors.*.reason", "body error.details.*.reason", "body code", "body type", "body error", "body errorCode", "body error_code", "body errorType", "body error_type", "body error_name", "body name", "body reason", "body errors.*.code", "body errors.*.type", "body errors.*.error", "body errors.*.reason", "body errors.*.errorCode", "body errors.*.extensions.code", "body meta.errorType", "body [].errorCode", "body [].code", "body __type", "body <Code>"}, Trim: "word", Is: []string{"insufficientquota", "budgetexceeded", "billinghardlimitreached", "billinglimitexceeded", "dailylimitexceeded", "dailyquotaexceeded", "monthlylimitexceeded", "monthlyquotaexceeded", "usagecapexceeded", "quotaexhausted", "creditsexhausted", "insufficientcredits", "insufficientbalance", "outofcredits", "exceededcurrentquotaerror", "spendinglimitreached", "planlimitreached", "planlimitexceeded"}, Verdict: "served", Permanent: "yes"},
		{Statuses: []int{402, 403}, From: []string{"body error.code", "body error.type", "body error.status", "body error.reason", "body error.errors.*.reason", "body error.details.*.reason", "body code", "body type", "body error", "body errorCode", "body error_code", "body errorType", "body error_type", "body error_name", "body name", "body reason", "body errors.*.code", "body errors.*.type", "body errors.*.error", "body errors.*.reason", "body errors.*.errorCode", "body errors.*.extensions.code", "body meta.errorType", "body [].errorCode", "body [].code", "body __type", "body <Code>"}, Trim: "word", Is: []string{"quotaexceeded"}, Verdict: "served", Permanent: "yes"},
		{From: []string{"body error.code", "body error.type", "body error.status", "body error.reason", "body error.errors.*.reason", "body error.details.*.reason", "body code", "body type", "body error", "body errorCode", "body error_code", "body errorType", "body error_type", "body error_name", "body name", "body reason", "body errors.*.code", "body errors.*.type", "body errors.*.error", "body errors.*.reason", "body errors.*.errorCode", "body errors.*.extensions.code", "body meta.errorType", "body [].errorCode", "body [].code", "body __type", "body <Code>"}, Trim: "word", Is: []string{"toomanyconcurrentrequests", "toomanyconnections", "concurrencylimitexceeded", "concurrentlimitexceeded", "concurrentrequestlimitexceeded", "maxconcurrencyexceeded"}, Verdict: "throttled", Concurrency: true},
		{From: []string{"body error.code", "body error.type", "body error.status", "body error.reason", "body error.errors.*.reason", "body error.details.*.reason", "body code", "body type", "body error", "body errorCode", "body error_code", "body errorType", "body error_type", "body error_name", "body name", "body reason", "body errors.*.code", "body errors.*.type", "body errors.*.error", "body errors.*.reason", "body errors.*.errorCode", "body errors.*.extensions.code", "body meta.errorType", "body [].errorCode", "body [].code", "body __type", "body <Code>"}, Trim: "word", Is: []string{"ratelimit", "ratelimited", "ratelimiting", "ratelimiterror", "ratelimitingerror", "ratelimitederror", "ratelimitexceeded", "ratelimitexceedederror", "ratelimitexceededexception", "ratelimitreached", "exceededratelimit", "rateexceeded", "requestrateexceeded", "requestratelimitexceeded", "requestratetoolarge", "userratelimitexceeded", "apiratelimitexceeded", "ipratelimitexceeded", "toomanyrequest", "toomanyrequests", "toomanyrequestserror", "toomanyrequestsexception", "toomanyrequestspersecond", "requestlimitexceeded", "requestlimitreached", "throttle", "throttled", "throttling", "throttlederror", "throttlingerror", "throttledexception", "throttlingexception", "requestthrottled", "requestthrottledexception", "throttleviolation", "slowdown", "provisionedthroughputexceededexception", "resourceexhausted", "complexitybudgetexhausted"}, Verdict: "throttled"},
		{Statuses: []int{400, 403}, From: []string{"body message", "body error", "body error.message", "body error_message", "body error_description", "body errors.*.message", "body errors.*.detail", "body detail", "body title", "body msg"}, Trim: "word", Is: []string{"toomanyrequests"}, Begins: []string{"ratelimitexceeded", "apiratelimitexceeded", "requestratelimitexceeded", "userratelimitexceeded", "youhaveexceededyourratelimit", "youhaveexceededtheratelimit", "youhaveexceededasecondaryratelimit", "yourequestwasthrottled", "requestwasthrottled"}, Verdict: "throttled"},
		{Statuses: []int{429}, From: []string{"body message", "body error", "body error.message", "body error_message", "body error_description", "body errors.*.message", "body errors.*.detail", "body detail", "body title", "body msg"}, Trim: "word", Has: []string{"dailylimit", "dailyquota", "dailyratelimit", "dailyrequest", "dailyusage", "requestsperday", "callsperday", "perdaylimit", "limitfortoday", "quotafortoday", "monthlylimit", "monthlyquota", "monthlyrequest", "requestspermonth", "callspermonth"}, Wait: 3600, As: "nothing"},
		{From: []string{"X-Envoy-Ratelimited"}, Verdict: "throttled", As: "nothing"},
		{Statuses: []int{429}, From: []string{"X-Kubernetes-Pf-Flowschema-Uid"}, Verdict: "throttled", Concurrency: true, As: "nothing"},
		{From: []string{"body type"}, Trim: "fragment", Is: []string{"quota-exceeded", "temporary-reduced-capacity", "abnormal-usage-detected"}, Verdict: "throttled"},
		{From: []string{"body violated-policies.*"}, As: "name"},
	}}},
}
