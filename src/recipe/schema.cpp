#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "recipe/sections.h"
#include "recipe/writer.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

struct JsonValue {
  Json operator()(std::monostate) const { return nullptr; }
  template <class T>
  Json operator()(const T& value) const {
    return value;
  }
};

Json number_schema(const KeySpec& key, const char* type) {
  Json schema = {{"type", type}};
  if (std::isfinite(key.least)) schema[key.above_least ? "exclusiveMinimum" : "minimum"] = key.least;
  if (std::isfinite(key.most)) schema["maximum"] = key.most;
  return schema;
}

Json list_schema(const KeySpec& key, Json items) {
  Json schema = {{"type", "array"}, {"items", std::move(items)}};
  if (key.length > 0) schema["minItems"] = schema["maxItems"] = key.length;
  return schema;
}

Json kind_schema(const KeySpec& key);

// A value, one of the key's words, null (unset), or text with a ${VARIABLE} in it.
Json allowed_values(const KeySpec& key) {
  Json any = Json::array({kind_schema(key), {{"type", "null"}}, {{"type", "string"}, {"pattern", "[$][{]"}}});
  if (key.kind != KeyKind::kWord && !key.words.empty()) any.push_back({{"enum", key.words}});
  return any;
}

// Values in the place of one, each under its part's name.
Json parts_schema(const KeySpec& key) {
  Json parts = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  for (const std::string& name : key.parts)
    parts["properties"][name] = {{"anyOf", allowed_values(key.or_for_each({}))}};
  return parts;
}

Json kind_schema(const KeySpec& key) {
  switch (key.kind) {
    case KeyKind::kBool: return {{"type", "boolean"}};
    case KeyKind::kInteger: return number_schema(key, "integer");
    case KeyKind::kReal: return number_schema(key, "number");
    case KeyKind::kText: {
      Json schema = {{"type", Json::array({"string", "number"})}};
      if (!key.pattern.empty()) schema["pattern"] = key.pattern;
      return schema;
    }
    case KeyKind::kWord: return {{"enum", key.words}};
    case KeyKind::kIntegerList: return list_schema(key, number_schema(key, "integer"));
    case KeyKind::kRealList: return list_schema(key, number_schema(key, "number"));
    case KeyKind::kTextList: {
      Json item = {{"type", {"string", "number"}}};
      if (!key.pattern.empty()) item["pattern"] = key.pattern;
      if (key.single) return {{"anyOf", {item, list_schema(key, item)}}};
      return list_schema(key, std::move(item));
    }
  }
  return {};
}

Json key_schema(const KeySpec& key, const Value& fallback) {
  Json any = allowed_values(key);
  if (!key.parts.empty()) any.push_back(parts_schema(key));
  return {{"description", key.sentence + " Allowed: " + allowed_text(key) + "."},
          {"default", std::visit(JsonValue{}, fallback)},
          {"anyOf", std::move(any)}};
}

// The keys of every row are properties; which of them go with the chosen row is said by a condition.
// `below` are the names of the sections within this one.
void add_rows(Json& schema, const Section& section, std::vector<std::string> below) {
  Json names = Json::array();
  std::vector<std::string> common = std::move(below);
  common.push_back(section.choice_key);
  for (const Field& field : section.fields) common.push_back(field.spec.name);
  for (const ChoiceSpec& row : *section.rows) {
    names.push_back({{"const", row.name}, {"description", row.sentence}});
    std::vector<std::string> allowed = common;
    for (const KeySpec& key : row.keys) {
      allowed.push_back(key.name);
      schema["properties"][key.name] = true;
    }
    Json properties = Json::object();
    for (const KeySpec& key : row.keys) properties[key.name] = key_schema(key, key.fallback);
    schema["allOf"].push_back(
        {{"if",
          {{"properties", {{section.choice_key, {{"const", row.name}}}}},
           {"required", {section.choice_key}}}},
         {"then", {{"properties", std::move(properties)}, {"propertyNames", {{"enum", allowed}}}}}});
  }
  schema["properties"][section.choice_key] = {{"description", section.choice_sentence},
                                              {"oneOf", std::move(names)}};
}

Json section_schema(const Section& section, std::vector<std::string> below) {
  Json types = {"object"};
  if (!section.path.empty() && !section.is_item) types.push_back("null");  // its keys' defaults
  if (!section.scalar_key.empty()) types.push_back("string");
  Json schema = {{"type", types.size() > 1 ? types : types[0]},
                 {"description", section.sentence},
                 {"additionalProperties", false},
                 {"properties", Json::object()}};
  for (const Field& field : section.fields) {
    schema["properties"][field.spec.name] = key_schema(field.spec, field.get());
  }
  if (section.rows != nullptr) add_rows(schema, section, std::move(below));
  return schema;
}

Json items_schema(const Section& list) {
  list.set_items(1);
  Json item = section_schema(list.items().at(0), {});
  list.set_items(0);
  Json schema = {{"type", {"array", "null"}}, {"description", list.sentence}, {"items", std::move(item)}};
  if (list.fields.empty()) return schema;
  return {{"description", list.sentence}, {"anyOf", {std::move(schema), section_schema(list, {})}}};
}

}  // namespace

std::string write_schema(const Catalog& catalog) {
  Recipe defaults;
  Json schema;
  const std::vector<Section> sections = sections_of(defaults, catalog);
  for (const Section& section : sections) {
    std::vector<std::string> below;
    for (const Section& other : sections) {
      if (other.path.starts_with(section.path + ".")) below.push_back(last_part(other.path));
    }
    if (section.path.empty()) {
      schema = section_schema(section, {});
      schema["properties"]["extends"] = {
          {"description", "Files this recipe builds on, relative to it."},
          {"anyOf", {{{"type", {"string", "null"}}}, {{"type", "array"}, {"items", {{"type", "string"}}}}}}};
      continue;
    }
    Json* parent = &schema;
    const std::vector<std::string> parts = split(section.path, '.');
    for (size_t i = 0; i + 1 < parts.size(); ++i) parent = &(*parent)["properties"][parts[i]];
    (*parent)["properties"][parts.back()] =
        section.items ? items_schema(section) : section_schema(section, std::move(below));
  }
  Json document = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "autotrain recipe"}};
  document.update(schema);
  return text_of_json(document);
}

}  // namespace autotrain
